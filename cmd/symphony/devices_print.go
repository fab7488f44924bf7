package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/symphony-serving/symphony/backend/telemetry"
)

// print writes the machine for people. Errors of writing: cli.Checked has them.
func (m *machine) print(to io.Writer) {
	m.GPUs.print(to)
	fmt.Fprintln(to, "\nRDMA")
	if len(m.found) == 0 && m.RDMA.Missing != "" {
		fmt.Fprintln(to, "no RDMA device here: links use TCP\n  "+m.RDMA.Missing)
	} else {
		_ = printRDMA(to, m.found, m.host)
	}
	fmt.Fprintln(to, "\nCPU")
	m.CPU.print(to)
	fmt.Fprintln(to, "\nLIBRARIES")
	printLibraries(to, m.Libraries)
}

func (g *gpus) print(to io.Writer) {
	title := "GPUS"
	if v := g.Versions; v != nil {
		title += fmt.Sprintf(" (driver %s, for programs of CUDA up to %s)", orDash(v.Driver), orDash(v.CUDA))
	}
	fmt.Fprintln(to, title)
	switch {
	case g.Missing != "":
		fmt.Fprintln(to, "no GPU here that can be used: models run on the CPU\n  "+g.Missing)
		return
	case len(g.Devices) == 0:
		fmt.Fprintln(to, "no GPU here: models run on the CPU")
		return
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "GPU\tNAME\tMEMORY\tBUSY\tPOWER\tTEMP\tSM CLOCK\tMEMORY CLOCK\tPCIE\tHEALTH")
	for i := range g.Devices {
		fmt.Fprintln(w, strings.Join(g.Devices[i].row(), "\t"))
	}
	w.Flush()
	fmt.Fprintln(to)
	for i := range g.Devices {
		g.Devices[i].notes(to)
	}
}

// title is "0", and of a MIG instance "MIG 2".
func (g *gpu) title() string {
	if g.Parent != "" {
		return fmt.Sprintf("MIG %d", g.Instance)
	}
	return fmt.Sprint(g.Index)
}

func (g *gpu) row() []string {
	s := g.Sample
	if s == nil {
		s = &telemetry.Sample{}
	}
	link := "-"
	if l := s.PCIe; l.Known {
		link = fmt.Sprintf("gen %d x%d", l.Value.Generation, l.Value.Width)
	}
	return []string{g.title(), orDash(g.Name), of(gibibytes(s.MemoryUsed), gibibytes(s.MemoryTotal), "%.1f", " GiB"), of(s.Busy, telemetry.Maybe[int]{}, "%d", " %"),
		of(s.Power, s.PowerLimit, "%.0f", " W"), of(s.Temperature, telemetry.Maybe[int]{}, "%d", " C"),
		of(s.SMClock, s.SMClockMax, "%d", " MHz"), of(s.MemoryClock, s.MemoryClockMax, "%d", " MHz"), link, g.Health.State.String()}
}

// of writes "1 of 80 GiB", as far as it is known.
func of[T any](now, most telemetry.Maybe[T], format, unit string) string {
	switch {
	case !now.Known:
		return "-"
	case !most.Known:
		return fmt.Sprintf(format, now.Value) + unit
	}
	return fmt.Sprintf(format+" of "+format, now.Value, most.Value) + unit
}

func gibibytes(m telemetry.Maybe[uint64]) telemetry.Maybe[float64] {
	return telemetry.Maybe[float64]{Value: float64(m.Value) / (1 << 30), Known: m.Known}
}

// notes is a line for what has no place in a table, and one for what is wrong.
func (g *gpu) notes(to io.Writer) {
	if g.UUID != "" {
		users := ""
		if s := g.Sample; s != nil && s.Processes.Known && !g.MIG {
			users = ", nobody computes on it"
			if n := s.Processes.Value; len(n) > 0 {
				users = ", used by " + telemetry.Describe(n)
			}
		}
		mode := ""
		if g.MIG {
			mode = ", in MIG mode: its instances compute"
		}
		fmt.Fprintf(to, "%s: %s, PCI %s%s%s\n", g.title(), g.UUID, orDash(g.PCI), mode, users)
	}
	if g.Health.Cause != "" {
		fmt.Fprintf(to, "%s: %v: %s\n", g.title(), g.Health.State, g.Health.Cause)
	}
}
