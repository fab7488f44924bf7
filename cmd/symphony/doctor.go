package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/backend"
	"github.com/symphony-serving/symphony/backend/telemetry/health"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/doctor"
	"github.com/symphony-serving/symphony/cmd/symphony/parts"
	"github.com/symphony-serving/symphony/transport/netprobe"
)

type doctorCmd struct {
	cli.Flags `embed:""`
	JSON      bool `help:"As JSON."`
}

// Help says what the words mean.
func (doctorCmd) Help() string {
	return `Looks at this host: processors, frequencies, timers (measured for a quarter of a second), clocks,
interrupts, memory, limits, RDMA, GPUs, libraries, beside what the configuration asks of it.

ok: nothing to do. note: it cannot be told or changed from here. warn: it works, and costs latency or
fails under load. fail: it will not work as configured; the exit status is 1 then. What comes after -> is what
to change. Run it as the user, and in the container, that Symphony runs in.`
}

// doctorWidth is that of lines for people.
const doctorWidth = 100

// Run looks and tells.
func (c doctorCmd) Run() error {
	cfg, err := c.Load()
	if err != nil {
		return err
	}
	d := doorsNow()
	d.libraries = runtimes(cfg.Backend.ONNXRuntime)
	all := examine(doctor.Here(), look(d), cfg, probeNow)
	if c.JSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		err = e.Encode(all)
	} else {
		err = doctor.Print(os.Stdout, all, doctorWidth)
	}
	if err == nil && doctor.Worst(all) == doctor.Fail {
		return cli.ErrTold
	}
	return err
}

// examine is all that is looked at. probe tells whether the kernel's round-trip times can be had.
func examine(h *doctor.Host, m *machine, cfg config.Config, probe func() error) []doctor.Finding {
	all := h.Look(needs(cfg, m))
	all = append(all, roundTrips(cfg.TCP, probe)...)
	all = append(all, rdmaFindings(m, cfg.RDMA.Mode)...)
	all = append(all, gpuFindings(m, cfg.Backend.Pools)...)
	return append(all, libraryFindings(m, cfg.Backend.Pools)...)
}

// needs is what the configuration asks of the host.
func needs(cfg config.Config, m *machine) doctor.Needs {
	n := doctor.Needs{Connections: cfg.Frontend.Connections, Memory: int64(cfg.Frontend.Arena) + int64(cfg.Frontend.ImageMemory),
		Pinned: int64(cfg.Frontend.Arena) + int64(cfg.RDMA.Buffers), Threads: 64 + 2*cli.Processors(), LoopCores: parts.Placement(cfg.Scheduler).Cores,
		Devices: len(m.GPUs.Devices) > 0 || cfg.RDMA.Mode != "never" && len(m.RDMA.Devices) > 0}
	if n.Devices {
		n.Memory += int64(cfg.RDMA.Buffers)
	}
	for _, p := range cfg.Backend.Pools {
		n.Threads += 2 * max(1, p.Devices) * max(1, p.Threads)
	}
	return n
}

// probeNow loads the probe and takes it out again.
func probeNow() error {
	p, err := netprobe.Open(netprobe.Options{})
	if err != nil {
		return err
	}
	return p.Close()
}

func roundTrips(c config.TCP, probe func() error) []doctor.Finding {
	const part = "round trips"
	if c.KernelRTT == "never" {
		return []doctor.Finding{{Part: part, Found: "measured by heartbeats alone, as configured (tcp.kernel_rtt)"}}
	}
	err := probe()
	var missing *netprobe.UnsupportedError
	switch {
	case err == nil:
		return []doctor.Finding{{Part: part, Found: "the kernel tells those of each connection (eBPF)"}}
	case errors.As(err, &missing):
		return []doctor.Finding{{Part: part, State: doctor.Warn, Found: "measured by heartbeats alone: the kernel's cannot be had here", Change: missing.Need}}
	}
	return []doctor.Finding{{Part: part, State: doctor.Note, Found: "measured by heartbeats alone: " + err.Error()}}
}

// rdmaFindings has a line for each device, and one for each thing in its way.
func rdmaFindings(m *machine, mode string) (out []doctor.Finding) {
	const part = "RDMA"
	if mode == "never" {
		return []doctor.Finding{{Part: part, Found: "not used, as configured (rdma.mode)"}}
	}
	without := doctor.Warn
	if mode == "always" {
		without = doctor.Fail
	}
	if len(m.RDMA.Devices) == 0 {
		f := doctor.Finding{Part: part, State: doctor.Note, Found: "no device here: links use TCP"}
		if mode == "always" {
			f = doctor.Finding{Part: part, State: doctor.Fail, Found: "no device here, and rdma.mode is always", Change: "rdma.mode: auto, or a host with a device; in a container pass it in (/dev/infiniband)"}
		}
		return []doctor.Finding{f}
	}
	for _, d := range m.RDMA.Devices {
		if d.Usable {
			found := d.Name + " can be used"
			if d.Software {
				found += "; it is software, no faster than TCP"
			}
			out = append(out, doctor.Finding{Part: part, Found: found})
		}
		for _, o := range d.Obstacles {
			what, change, _ := strings.Cut(o, ": ")
			if change == "" {
				change = "another device, or rdma.mode: never"
			}
			out = append(out, doctor.Finding{Part: part, State: without, Found: d.Name + " cannot be used: " + what, Change: change})
		}
	}
	return out
}

// wants reports whether the configuration has a pool of the kind.
func wants(pools []config.Pool, kind string) bool {
	return slices.ContainsFunc(pools, func(p config.Pool) bool { return p.Kind == kind })
}

func gpuFindings(m *machine, pools []config.Pool) (out []doctor.Finding) {
	const part = "GPU"
	if len(m.GPUs.Devices) == 0 {
		why := m.GPUs.Missing
		if cut := strings.LastIndex(why, ": "); cut > 0 { // what would help comes after
			why = why[:cut]
		}
		if why != "" {
			why = "; " + why
		}
		f := doctor.Finding{Part: part, State: doctor.Note, Found: "none here that can be used, models run on the CPU" + why}
		if wants(pools, backend.KindCUDA) {
			f = doctor.Finding{Part: part, State: doctor.Fail, Found: "none here that can be used, and a pool is of kind cuda" + why,
				Change: "install NVIDIA's driver (580 or newer); in a container pass the GPUs in (docker run --gpus all); or a pool of kind cpu"}
		}
		return []doctor.Finding{f}
	}
	for i := range m.GPUs.Devices {
		g := &m.GPUs.Devices[i]
		f := doctor.Finding{Part: part, Found: fmt.Sprintf("%s, %s: healthy", g.title(), orDash(g.Name))}
		if v := g.Health; v.State != health.Healthy {
			f.State, f.Found = doctor.Warn, fmt.Sprintf("%s, %s: %v: %s", g.title(), orDash(g.Name), v.State, v.Cause)
			f.Change = map[health.Remedy]string{health.Wait: "look at its cooling, its power limit and who else uses it (nvidia-smi -q); it returns to service when it is well",
				health.NewContext: "restart the backend", health.Reset: "sudo nvidia-smi --gpu-reset with nothing running on it, or restart the host"}[v.Remedy]
		}
		out = append(out, f)
	}
	return out
}

// libraryFindings are of those that something here needs: GPUs' only where there are some. That RDMA's
// is missing is said of each device.
func libraryFindings(m *machine, pools []config.Pool) (out []doctor.Finding) {
	for _, l := range m.Libraries {
		needed := len(m.GPUs.Devices) > 0 || wants(pools, backend.KindCUDA)
		if l.Name == "ONNX Runtime" {
			needed = wants(pools, backend.KindCPU) || len(pools) == 0
		}
		switch {
		case l.Missing == "":
			out = append(out, doctor.Finding{Part: l.Name, Found: l.Path})
		case needed && l.Name != "RDMA verbs":
			what, change, cut := strings.Cut(l.Missing, ": ")
			if !cut {
				change = "see symphony devices"
			}
			out = append(out, doctor.Finding{Part: l.Name, State: missingState(pools), Found: what, Change: change})
		}
	}
	return out
}

// missingState is that of a library without which a configured pool does not run; without pools
// nobody has said that any will.
func missingState(pools []config.Pool) doctor.State {
	if len(pools) == 0 {
		return doctor.Warn
	}
	return doctor.Fail
}
