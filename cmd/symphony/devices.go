package main

import (
	"encoding/json"
	"errors"
	"os"

	"github.com/symphony-serving/symphony/backend/telemetry"
	"github.com/symphony-serving/symphony/backend/telemetry/health"
	"github.com/symphony-serving/symphony/cgo/cuda"
	"github.com/symphony-serving/symphony/cgo/nvml"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/discover"
)

type devicesCmd struct {
	JSON bool `help:"As JSON, with all values."`
}

// Run prints what is there. Nothing is an answer, not an error.
func (c devicesCmd) Run() error {
	m := look(doorsNow())
	if c.JSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(m)
	}
	out := &cli.Checked{To: os.Stdout}
	m.print(out)
	return out.Err
}

// doors are what is asked about the machine; tests have others.
type doors struct {
	nvml      func() (telemetry.NVML, error)
	rdma      func() ([]discover.Device, error)
	rdmaHost  rdmaHost
	cpu       cpu
	cuda      bool      // this binary has the door to CUDA
	libraries []library // but those that the doors themselves load
	find      func(soname string) string
}

func doorsNow() doors {
	return doors{nvml: nvml.Open, rdma: func() ([]discover.Device, error) { return discover.List("/") }, rdmaHost: rdmaHostNow(),
		cpu: cpuNow("/"), cuda: cuda.Linked, libraries: runtimes(""), find: findLibrary}
}

// machine is what there is, as JSON has it.
type machine struct {
	GPUs      gpus        `json:"gpus"`
	RDMA      rdmaDevices `json:"rdma"`
	CPU       cpu         `json:"cpu"`
	Libraries []library   `json:"libraries"`
	host      rdmaHost    // for print
	found     []discover.Device
}

// gpus are all that NVML lists, or why it cannot.
type gpus struct {
	Missing  string              `json:"missing,omitempty"`
	Versions *telemetry.Versions `json:"versions,omitempty"`
	Devices  []gpu               `json:"devices"`
}

// gpu is one of them, or a MIG instance.
type gpu struct {
	telemetry.Device
	Sample     *telemetry.Sample     `json:"sample,omitempty"`
	Throughput *telemetry.Throughput `json:"pcie_throughput,omitempty"`
	Health     health.Verdict        `json:"health"`
}

// rdmaDevices are the host's, with what links make of them.
type rdmaDevices struct {
	Missing string       `json:"missing,omitempty"`
	Devices []rdmaDevice `json:"devices"`
}

type rdmaDevice struct {
	Name      string     `json:"name"`
	Driver    string     `json:"driver"`
	Software  bool       `json:"software"`
	NUMANode  int        `json:"numa_node"` // -1: unknown
	Ports     []rdmaPort `json:"ports"`
	Usable    bool       `json:"usable"`
	Obstacles []string   `json:"obstacles,omitempty"`
}

type rdmaPort struct {
	Number int    `json:"number"`
	State  string `json:"state"`
	Link   string `json:"link"`
	Rate   string `json:"rate"`
	Netdev string `json:"netdev,omitempty"`
}

// look asks all doors.
func look(d doors) *machine {
	m := &machine{CPU: d.cpu, host: d.rdmaHost}
	api, err := d.nvml()
	m.GPUs = lookGPUs(api, err)
	m.Libraries = append(m.Libraries, driverLibrary(d.find, d.cuda), doorLibrary("NVML", "libnvidia-ml.so.1", d.find, err),
		doorLibrary("RDMA verbs", "libibverbs.so.1", d.find, d.rdmaHost.door))
	m.Libraries = append(m.Libraries, d.libraries...)
	m.found, err = d.rdma()
	m.RDMA = lookRDMA(m.found, d.rdmaHost, err)
	return m
}

// lookGPUs takes a sample of each, and closes the door.
func lookGPUs(api telemetry.NVML, err error) gpus {
	out := gpus{Devices: []gpu{}}
	if err != nil {
		out.Missing = err.Error()
		return out
	}
	defer api.Close()
	if v, err := api.Versions(); err == nil {
		out.Versions = &v
	}
	devices, err := api.Devices()
	if err != nil {
		out.Missing = err.Error()
		return out
	}
	for _, d := range devices {
		g := gpu{Device: d}
		err := d.Err
		if err == nil {
			var s telemetry.Sample
			if s, err = api.Sample(d.UUID); err == nil {
				g.Sample = &s
			}
		}
		if err == nil && d.Parent == "" {
			if t, err := api.Throughput(d.UUID); err == nil {
				g.Throughput = &t
			}
		}
		g.Health = telemetry.Glance(g.Sample, err)
		out.Devices = append(out.Devices, g)
	}
	return out
}

func lookRDMA(found []discover.Device, h rdmaHost, err error) rdmaDevices {
	out := rdmaDevices{Devices: []rdmaDevice{}}
	switch {
	case err != nil:
		out.Missing = err.Error()
	case len(found) == 0 && errors.Is(h.door, errors.ErrUnsupported):
		out.Missing = h.door.Error()
	}
	for _, d := range found {
		r := rdmaDevice{Name: d.Name, Driver: d.Driver, Software: d.Software, NUMANode: d.NUMANode, Ports: []rdmaPort{}, Obstacles: h.obstacles(d)}
		r.Usable = len(r.Obstacles) == 0
		for _, p := range d.Ports {
			r.Ports = append(r.Ports, rdmaPort{p.Number, stateText(p.State), p.LinkLayer, p.Rate, p.Netdev})
		}
		out.Devices = append(out.Devices, r)
	}
	return out
}

func stateText(s rdma.PortState) string { return s.String() }
