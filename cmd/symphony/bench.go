package main

type benchCmd struct {
	Load loadCmd `cmd:"" help:"Open-loop load: offered rate, goodput, bad rate by reason, percentiles."`
}
