package catalog

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/transport/wire"
)

// Paged is the memory of each device of a pool whose models need not all be there at once: their
// weights are in the host's memory, and come to a device and go by the scheduler's orders (wire.Load). It is
// counted in pages of one size; a model takes as many as its weights need, all or none.
type Paged struct {
	Page  int64 `json:"page"`  // bytes
	Pages int   `json:"pages"` // for weights
	// What the device has beside them, bytes; 0: none of its own. The scheduler plans with neither.
	Workspace int64 `json:"workspace,omitempty"` // of what runs
	IO        int64 `json:"io,omitempty"`        // of inputs and outputs
}

// Alike reports whether one engine can serve devices of both: with pages of one size, or without (nil).
func (m *Paged) Alike(n *Paged) bool {
	return (m == nil) == (n == nil) && (m == nil || m.Page == n.Page)
}

// PagesMax bounds the pages of a device.
const PagesMax = 1 << 24

// PagesOf is how many pages a model's weights take: at least one. Above Pages it does not fit at all.
func (m *Paged) PagesOf(spec *ModelSpec) int {
	n := max(0, spec.WeightsBytes) / m.Page
	if n*m.Page < spec.WeightsBytes {
		n++
	}
	return int(min(max(1, n), PagesMax+1))
}

// HeldModel is a model whose weights a device has.
type HeldModel struct {
	Key        string          `json:"key"`
	Generation wire.Generation `json:"generation"`
}

// Held tells what a device of a paged pool holds; backend -> scheduler, for each device after a Promise that is kept and
// before its Promised: it takes the place of what Pool.Held said when the link began. Loads that were under way are void:
// what they bring is not here, and is gone before the next load begins. (So it is with Pool.Held on the link of
// an only scheduler. A device that was out of service comes back empty.)
type Held struct {
	Pool   int         `json:"pool"`           // index in BackendInfo.Pools
	Device int         `json:"device"`         // index in the pool's devices
	Models []HeldModel `json:"held,omitempty"` // least recently used first
}

// checkPaged refuses memory that no device can have.
func (p *Pool) checkPaged() error {
	m := p.Paged
	switch {
	case m == nil && p.Held != nil:
		return fmt.Errorf("pool %s: it holds models on demand, and has no pages", p.DeviceType)
	case m == nil:
		return nil
	case m.Page <= 0 || m.Pages <= 0 || m.Pages > PagesMax || m.Workspace < 0 || m.IO < 0:
		return fmt.Errorf("pool %s: %d pages of %d bytes, workspace of %d, IO of %d bytes", p.DeviceType, m.Pages, m.Page, m.Workspace, m.IO)
	case len(p.Held) > p.Devices:
		return fmt.Errorf("pool %s: models on %d of %d devices", p.DeviceType, len(p.Held), p.Devices)
	}
	var err error
	for _, held := range p.Held {
		err = errors.Join(err, checkHeld(held))
	}
	return err
}

func checkHeld(all []HeldModel) error {
	for i := range all {
		if all[i].Key == "" || all[i].Generation == 0 {
			return fmt.Errorf("model %q of generation %d is on no device", all[i].Key, all[i].Generation)
		}
	}
	return nil
}
