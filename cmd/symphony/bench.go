package main

type benchCmd struct {
	Load  loadCmd  `cmd:"" help:"Open-loop load: offered rate, goodput, bad rate by reason, percentiles."`
	Net   netCmd   `cmd:"" help:"RDMA and TCP beside each other: an incast of READs as in the paper's Appendix B, and messages by size."`
	Paper paperCmd `cmd:"" help:"The paper's figures and tables, by simulation, with a report."`
}
