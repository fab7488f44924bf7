package main

type benchCmd struct {
	Load      loadCmd           `cmd:"" help:"Open-loop load: offered rate, goodput, bad rate by reason, percentiles."`
	Overhead  overheadCmd       `cmd:"" help:"What the system itself takes of a request's time, stage by stage, beside bare TCP and fasthttp."`
	Scheduler benchSchedulerCmd `cmd:"" help:"The scheduler alone, as in section 5.5 of the paper: how many requests a second it carries, and how late its grants are."`
	HTTP      httpCmd           `cmd:"" name:"http" help:"The HTTP ingress beside a bare fasthttp echo: requests a second, binary and JSON."`
	Net       netCmd            `cmd:"" help:"RDMA and TCP beside each other: an incast of READs as in the paper's Appendix B, and messages by size."`
	Soak      soakCmd           `cmd:"" help:"A cluster under load and faults from a seed, for long: one answer each, no leaks, SLOs kept between the faults."`
	Paper     paperCmd          `cmd:"" help:"The paper's figures and tables, by simulation, with a report."`
}
