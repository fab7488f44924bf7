package main

type benchCmd struct {
	Load  loadCmd  `cmd:"" help:"Open-loop load: offered rate, goodput, bad rate by reason, percentiles."`
	Paper paperCmd `cmd:"" help:"The paper's figures and tables, by simulation, with a report."`
}
