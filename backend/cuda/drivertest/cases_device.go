package drivertest

import (
	"errors"
	"reflect"
	"regexp"
	"testing"

	"github.com/symphony-serving/symphony/backend/cuda"
)

// testDevices: what a device says of itself can be used to find it elsewhere.
func testDevices(t *testing.T, f Fixture) {
	all, err := f.Driver.Devices()
	must(t, err)
	if len(all) <= f.Device {
		t.Fatalf("%d devices, and the suite is to use number %d", len(all), f.Device)
	}
	uuid := regexp.MustCompile(`^(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	pci := regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	seen := map[string]bool{}
	for i, d := range all {
		if d.Index != i || d.Name == "" || d.Memory <= 0 || d.Major < 3 || d.Multiprocessors <= 0 || d.NUMANode < -1 || d.DriverVersion < 11000 {
			t.Errorf("device %d: %+v", i, d)
		}
		if !uuid.MatchString(d.UUID) || !pci.MatchString(d.PCI) || seen[d.UUID] {
			t.Errorf("device %d: UUID %q, PCI %q", i, d.UUID, d.PCI)
		}
		seen[d.UUID] = true
	}
	again, err := f.Driver.Devices()
	must(t, err)
	if !reflect.DeepEqual(all, again) {
		t.Errorf("asked again: %+v, before: %+v", again, all)
	}
	if got := open(t, f).c.Info(); got != all[f.Device] {
		t.Errorf("opened: %+v, listed: %+v", got, all[f.Device])
	}
}

func testBadIndex(t *testing.T, f Fixture) {
	all, err := f.Driver.Devices()
	must(t, err)
	for _, i := range []int{-1, len(all), 1 << 20} {
		c, err := f.Driver.Open(i)
		if err == nil || errors.Is(err, cuda.ErrLost) || errors.Is(err, cuda.ErrMemory) {
			t.Errorf("Open(%d): %v", i, err)
		}
		if err == nil {
			_ = c.Close()
		}
	}
}

// testOneContext: who opens a device twice gets one context, which lives until both have
// closed it; memory and streams are of the device, not of who made them.
func testOneContext(t *testing.T, f Fixture) {
	r := open(t, f)
	other, err := f.Driver.Open(f.Device)
	must(t, err)
	must(t, other.Enter())
	s, err := other.NewStream(true)
	must(t, err)
	m, dev := r.pinned(1<<16), r.alloc(1<<16)
	must(t, s.CopyIn(dev, pattern(m, 1)))
	must(t, s.Synchronize())
	must(t, s.Close())
	must(t, other.Close())

	must(t, r.c.Enter())
	out, mine := r.pinned(1<<16), r.stream()
	must(t, mine.CopyOut(out, dev))
	must(t, mine.Synchronize())
	same(t, "after the other context's Close", out, m)
}
