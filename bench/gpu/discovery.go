package gpu

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/symphony-serving/symphony/backend/cuda"
)

// discovery is what driver and NVML say of the machine.
type discovery struct {
	Devices []cuda.Info `json:"devices"`
	NVML    []Reading   `json:"nvml"`
}

// discover asks the driver, and NVML beside it. A GPU that is not healthy fails the part, and
// nothing else: what it computes is still worth a look.
func discover(_ context.Context, b *bench) (section, error) {
	d := &discovery{}
	var err error
	if d.Devices, err = b.m.Driver.Devices(); err != nil {
		return nil, err
	}
	if len(d.Devices) == 0 {
		return d, errors.New("the driver lists no device: see whether CUDA_VISIBLE_DEVICES hides them")
	}
	if b.m.Look == nil {
		return d, errors.New("NVML is not read by this binary")
	}
	if d.NVML, err = b.m.Look(); err != nil {
		return d, fmt.Errorf("NVML: %w", err)
	}
	return d, d.agree()
}

// agree tells what CUDA and NVML contradict each other in, and who is not well.
func (d *discovery) agree() error {
	var errs []error
	for _, dev := range d.Devices {
		r := d.reading(dev.UUID)
		switch {
		case r == nil:
			errs = append(errs, fmt.Errorf("NVML does not know %s (%s), which CUDA lists", dev.UUID, dev.Name))
		case !r.Healthy:
			errs = append(errs, fmt.Errorf("%s (%s): %s", dev.Name, dev.UUID, r.Health))
		}
	}
	return errors.Join(errs...)
}

// reading finds NVML's of a device. A MIG instance has a UUID of its own.
func (d *discovery) reading(uuid string) *Reading {
	for i := range d.NVML {
		if d.NVML[i].UUID == uuid {
			return &d.NVML[i]
		}
	}
	return nil
}

func (d *discovery) summary() string {
	var names []string
	for _, dev := range d.Devices {
		names = append(names, dev.Name)
	}
	return fmt.Sprintf("%d: %s", len(names), strings.Join(names, ", "))
}

func (d *discovery) pictures() []named { return nil }

func (d *discovery) table() [][]string { return nil }

func (d *discovery) text() string {
	t := grid{{"device", "name", "compute", "multiprocessors", "memory", "PCI", "NUMA node", "CUDA of the driver"}}
	for _, i := range d.Devices {
		t = append(t, []string{fmt.Sprint(i.Index), i.Name, fmt.Sprintf("%d.%d", i.Major, i.Minor), fmt.Sprint(i.Multiprocessors), gibibytes(i.Memory),
			i.PCI, numa(i.NUMANode), fmt.Sprintf("%d.%d", i.DriverVersion/1000, i.DriverVersion%1000/10)})
	}
	text := t.String()
	if len(d.NVML) == 0 {
		return text + "\nNVML says nothing.\n"
	}
	n := grid{{"NVML", "driver", "clock MHz (most)", "memory MHz", "power W (most)", "°C", "memory used", "throttled by", "health"}}
	for _, r := range d.NVML {
		n = append(n, []string{r.Name, r.Driver, fmt.Sprintf("%s (%s)", number(r.ClockMHz), number(r.ClockMostMHz)), number(r.MemoryMHz),
			fmt.Sprintf("%s (%s)", number(r.PowerW), number(r.PowerMostW)), number(r.Celsius), gibibytes(r.UsedBytes), orNone(strings.Join(r.Throttle, ", ")), r.Health})
	}
	return text + "\n" + n.String()
}

func numa(node int) string {
	if node < 0 {
		return "unknown"
	}
	return fmt.Sprint(node)
}

func orNone(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}
