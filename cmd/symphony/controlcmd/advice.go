package controlcmd

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/scheduler/control/api"
)

// Advice is `symphony advice`.
type Advice struct {
	Flags `embed:""`
	Watch bool `help:"Print it again whenever it changes, until Ctrl-C."`
	Parts bool `help:"Show the sub-clusters, too."`
}

// Help says what the columns are.
func (Advice) Help() string {
	return `How many GPUs there should be, by device type, and why. SIZE is the number of replicas
(backends) that whoever acts is to keep; it falls only once those that are to go have nothing left.
DEAD ones are there and serve nothing: they do not count. Who acts is control.autoscale.scaler.`
}

// Run shows.
func (c Advice) Run() error { return c.run(c.show) }

// watchEvery is how often --watch looks.
const watchEvery = time.Second

func (c Advice) show(s *session) error {
	before := ""
	for {
		a, err := s.Advice(s.ctx)
		switch {
		case s.ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if text := news(&a); text != before {
			before = text
			if err := s.print(a, func() { s.adviceTable(&a, c.Parts) }); err != nil {
				return err
			}
		}
		if !c.Watch {
			return nil
		}
		select {
		case <-s.ctx.Done():
			return nil
		case <-time.After(watchEvery):
		}
	}
}

// news is what of an advice is news: not how far needs have moved.
func news(a *api.Advice) string {
	text := a.Scaler
	for i := range a.Groups {
		g := &a.Groups[i]
		text += fmt.Sprintln(g.DeviceType, g.Scheduler, g.Action, g.Size, g.Unit, g.GPUs, g.Want, g.Min, g.Serving, g.OnOrder, g.Late, g.Dead, g.Leaving, g.Remove, g.Try, g.Error)
	}
	return text
}

func (s *session) adviceTable(a *api.Advice, parts bool) {
	if len(a.Groups) == 0 {
		fmt.Fprintln(s.out, "no GPU was seen yet")
		return
	}
	w := table(s.out)
	fmt.Fprintln(w, "DEVICE TYPE\tSCHEDULER\tADVICE\tGPUS\tWANTED\tNEEDED\tBAD\tREPLICAS\tSIZE\tON ORDER\tDEAD\tLEAVING")
	for i := range a.Groups {
		g := &a.Groups[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%.1f\t%.1f %%\t%d\t%d\t%d\t%d\t%d\n", g.DeviceType, cmp.Or(g.Scheduler, "-"), g.Action, g.GPUs, g.Want, g.Need, 100*g.BadRate,
			g.Serving, g.Size, g.OnOrder, len(g.Dead), len(g.Leaving))
	}
	w.Flush()
	for i := range a.Groups {
		g := &a.Groups[i]
		fmt.Fprintf(s.out, "%s: %s\n", atScheduler(g.DeviceType, g.Scheduler), g.Why)
		for _, l := range []struct {
			what  string
			names []string
		}{{"serve nothing", g.Dead}, {"get nothing new", g.Leaving}, {"may be removed", g.Remove}} {
			if len(l.names) > 0 {
				fmt.Fprintf(s.out, "  %s: %s\n", l.what, strings.Join(l.names, " "))
			}
		}
		if !parts {
			continue
		}
		for _, p := range g.Parts {
			fmt.Fprintf(s.out, "  %s: %s, %.2f needed, %.1f %% bad, idle share %.0f %%, %+d (%s)\n", p.Name, cli.Count(p.GPUs, "GPU"), p.Need, 100*p.BadRate, 100*p.Idle, p.Add-p.Remove, p.Why)
		}
	}
}
