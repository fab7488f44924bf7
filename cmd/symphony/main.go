// Command symphony is the whole system in one binary: every part is a
// subcommand, with a file of its own here; bench and sim have packages of their own.
// This package only wires: it reads the configuration (package config), makes the parts
// (package parts), and ends them in order.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/symphony-serving/symphony/cmd/symphony/bench"
	"github.com/symphony-serving/symphony/cmd/symphony/controlcmd"
	"github.com/symphony-serving/symphony/cmd/symphony/simcmd"
	"github.com/symphony-serving/symphony/cmd/symphony/version"
	"github.com/symphony-serving/symphony/cmd/symphony/watchcmd"
)

type commands struct {
	Serve      serveCmd          `cmd:"" help:"All parts in one process: HTTP ingress, frontend, scheduler, backend. Start here."`
	Scheduler  schedulerCmd      `cmd:"" help:"The scheduler alone: frontends and backends connect to it."`
	Frontend   frontendCmd       `cmd:"" help:"A frontend with the HTTP ingress."`
	Backend    backendCmd        `cmd:"" help:"A backend: owns devices and runs batches on them."`
	Model      controlcmd.Model  `cmd:"" help:"Add, change, watch and remove models while the system serves."`
	Plan       controlcmd.Plan   `cmd:"" help:"The control plane's plan: show, compare, apply, pause."`
	Advice     controlcmd.Advice `cmd:"" help:"How many GPUs there should be, and why."`
	Controller controllerCmd     `cmd:"" help:"The control plane alone: models at run time, plans, sub-clusters."`
	Partition  partitionCmd      `cmd:"" help:"Divide models among sub-clusters, offline: a plan as a table, a picture and JSON."`
	Profile    profileCmd        `cmd:"" help:"Measure a model's latency l(b) over batch sizes and write its profile."`
	Bench      bench.Command     `cmd:"" help:"Measure a running server (load), or what this machine makes of Symphony's parts."`
	Sim        simcmd.Command    `cmd:"" help:"Simulate a scheduler over models, GPUs and arrivals: one run, or the search of its goodput."`
	UI         watchcmd.UI       `cmd:"" name:"ui" help:"Open a saved schedule (of the live picture, or of sim --events) in the browser."`
	Top        watchcmd.Top      `cmd:"" help:"The live picture of a scheduler in a terminal."`
	Explain    watchcmd.Explain  `cmd:"" help:"Why was a request dropped or late? Its own story."`
	Devices    devicesCmd        `cmd:"" help:"This machine: GPUs and their health, RDMA devices, CPU, libraries, and what is missing."`
	Doctor     doctorCmd         `cmd:"" help:"This host as Symphony finds it: what costs latency or will not work, and what to change."`
	RDMA       rdmaCmd           `cmd:"" name:"rdma" help:"RDMA devices: what is there, and whether links can use it."`
	Version    versionCmd        `cmd:"" help:"Print the version."`

	VersionFlag kong.VersionFlag `name:"version" help:"Print the version."`
}

const description = `Symphony serves DNN models under tail-latency SLOs with as few GPUs as possible.

Start with:  symphony serve --config examples/quickstart.yaml

Configuration comes in layers, each over the one before: the file (--config),
flags (--set scheduler.margin=2ms and the named ones), the environment
(SYMPHONY_SCHEDULER__MARGIN=2ms).`

func main() {
	parser := newParser()
	ctx, err := parser.Parse(os.Args[1:])
	parser.FatalIfErrorf(withHint(err))
	if err := ctx.Run(); err != nil {
		if text := strings.TrimSpace(err.Error()); text != "" { // cli.ErrTold has none
			fmt.Fprintf(os.Stderr, "%s: %s\n", nameOf(ctx), text)
		}
		os.Exit(1)
	}
}

func newParser(more ...kong.Option) *kong.Kong {
	parser, err := kong.New(&commands{}, append([]kong.Option{kong.Name("symphony"), kong.Description(description),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Vars{"version": version.Text()}}, more...)...)
	if err != nil {
		panic(err) // the command line's own struct tags are wrong: a bug
	}
	return parser
}

// withHint says where the flags of the command are listed. (Not the list itself:
// the error would be its last line, and standard output not the place.)
func withHint(err error) error {
	var wrong *kong.ParseError
	if !errors.As(err, &wrong) {
		return err
	}
	return fmt.Errorf("%w; see `%s --help`", err, nameOf(wrong.Context))
}

// nameOf is the command that was given, without its arguments.
func nameOf(ctx *kong.Context) string {
	name, _, _ := strings.Cut(ctx.Command(), " <")
	return strings.TrimSpace("symphony " + name)
}
