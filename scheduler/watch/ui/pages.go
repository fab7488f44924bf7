package ui

import (
	"net/http"
	"time"

	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/mono"
)

// PagedPool is a pool whose models come and go, as the API has it. Rates are of the last second.
type PagedPool struct {
	Pool    string        `json:"pool"`
	Page    int64         `json:"page_bytes"`
	Devices []PagedDevice `json:"devices"`
	Models  []PagedModel  `json:"models"`
}

// PagedDevice is a device of one.
type PagedDevice struct {
	GPU       int      `json:"gpu"`
	Name      string   `json:"name"`
	Pages     int      `json:"pages"`
	Free      int      `json:"pages_free"`
	Held      int      `json:"models"`              // whose weights are there or on their way
	Loading   int      `json:"loading"`             // on their way
	Idle      mono.Dur `json:"oldest_ns,omitempty"` // how long ago the copy was used that is the next to go; 0: none is
	Cold      float64  `json:"loads_cold_per_s"`
	Copies    float64  `json:"loads_copy_per_s"`
	Failed    float64  `json:"loads_failed_per_s"`
	Room      float64  `json:"evictions_room_per_s"`
	Removed   float64  `json:"evictions_removed_per_s"`
	Stray     float64  `json:"evictions_stray_per_s"`
	Busy      float64  `json:"loader_busy"` // share of the time
	Loads     uint64   `json:"loads"`       // in this life of the device
	Evictions uint64   `json:"evictions"`
}

// PagedModel is a model of one.
type PagedModel struct {
	Model string   `json:"model"`
	Held  int      `json:"held"` // devices
	Hits  *float64 `json:"hits"` // share of its requests that found the weights there; null: none left yet
	Warm  uint64   `json:"warm"` // requests
	Cold  uint64   `json:"cold"`
	Loads uint64   `json:"loads"`
	Unmet mono.Dur `json:"unmet_ns"` // p
}

// Pages are the paged pools; whole: all of them have told what they hold.
func (h *Hub) Pages() (pools []PagedPool, whole bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.look()
	pools, whole = []PagedPool{}, len(h.state.Pools) > 0
	for i, p := range h.state.Pools {
		if p == nil || !p.Paged() {
			continue
		}
		out := PagedPool{Pool: p.Name, Page: p.Page, Devices: []PagedDevice{}, Models: []PagedModel{}}
		for g := range p.Rows {
			r := &p.Rows[g]
			if !r.Present {
				continue
			}
			if r.Memory == nil {
				whole = false
				continue
			}
			out.Devices = append(out.Devices, deviceOf(g, r, h.state.Now))
		}
		for _, m := range h.state.Models {
			if m != nil && int(m.Pool) == i {
				out.Models = append(out.Models, modelOf(m))
			}
		}
		pools = append(pools, out)
	}
	return pools, whole
}

func deviceOf(gpu int, r *watch.GPUState, now mono.Time) PagedDevice {
	m, rates := r.Memory, r.Memory.Rates(now)
	d := PagedDevice{GPU: gpu, Name: r.Name, Pages: m.Pages, Free: m.Free, Held: m.Held, Loading: m.Loading, Cold: rates.Cold, Copies: rates.Copies, Failed: rates.Failed,
		Room: rates.Room, Removed: rates.Removed, Stray: rates.Stray, Busy: rates.Busy, Loads: m.Cold + m.Copies, Evictions: m.Room + m.Removed + m.Stray}
	if m.Oldest != 0 {
		d.Idle = max(1, now.Sub(m.Oldest))
	}
	return d
}

func modelOf(m *watch.ModelState) PagedModel {
	c := m.Counted()
	out := PagedModel{Model: m.Name, Held: c.Held, Warm: c.Warm, Cold: c.Cold, Loads: c.Loads, Unmet: c.Unmet}
	if all := c.Warm + c.Cold; all > 0 {
		share := float64(c.Warm) / float64(all)
		out.Hits = &share
	}
	return out
}

// pagesWait is how long who asks first waits until schedulers have told what is where.
const pagesWait = 3 * time.Second

func (h *Hub) servePages(w http.ResponseWriter, r *http.Request) {
	over := time.NewTimer(pagesWait)
	defer over.Stop()
	for {
		pools, whole := h.Pages()
		if whole || h.file.Symphony != "" {
			answer(w, pools)
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-over.C:
			answer(w, pools) // a device that is just coming
			return
		case <-time.After(every):
		}
	}
}
