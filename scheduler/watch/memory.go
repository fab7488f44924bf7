package watch

import (
	"github.com/symphony-serving/symphony/transport/mono"
)

// Why weights were ordered onto a GPU, what came of that, or why they were ordered off it.
type Why uint8

const (
	WhyNone Why = iota
	// Cold and Copy are of loads: no GPU held the model; another one.
	Cold
	Copy
	// Arrived and Failed are what came of one.
	Arrived
	Failed
	// Room, Removed and Stray are of evictions: a load needed the pages; the model was removed; nobody
	// counted on what was there.
	Room
	Removed
	Stray
	whyEnd
)

// String is the word in documents.
func (w Why) String() string {
	names := [whyEnd]string{"", "cold", "copy", "arrived", "failed", "room", "removed", "stray"}
	if w < whyEnd {
		return names[w]
	}
	return ""
}

func whyOf(name string) Why {
	for w := Cold; w < whyEnd; w++ {
		if w.String() == name {
			return w
		}
	}
	return WhyNone
}

// MemoryInfo is the memory of a GPU of a paged pool, and what its loader did in this life of it.
type MemoryInfo struct {
	Pages   int       `json:"pages"`
	Free    int       `json:"free"`
	Held    int       `json:"held"`              // models whose weights are there, or on their way
	Loading int       `json:"loading,omitempty"` // on their way
	Oldest  mono.Time `json:"oldest,omitempty"`  // last use of the copy that goes next: the least recently used one that nobody waits for; 0: none

	Cold    uint64   `json:"cold,omitempty"` // loads that were ordered
	Copies  uint64   `json:"copies,omitempty"`
	Failed  uint64   `json:"failed,omitempty"` // of those
	Room    uint64   `json:"room,omitempty"`   // evictions
	Removed uint64   `json:"removed,omitempty"`
	Stray   uint64   `json:"stray,omitempty"`
	Busy    mono.Dur `json:"busy,omitempty"` // that the loader copied
}

// MemoryRates are what a GPU's loader did lately, per second.
type MemoryRates struct {
	Cold, Copies, Failed, Room, Removed, Stray float64
	Busy                                       float64 // share of the time that it copied
}

// Loads are those ordered, and Evictions the weights that went.
func (r *MemoryRates) Loads() float64     { return r.Cold + r.Copies }
func (r *MemoryRates) Evictions() float64 { return r.Room + r.Removed + r.Stray }

// MemoryState is a GPU's memory as told last.
type MemoryState struct {
	MemoryInfo
	rate MemoryRates // over the last MemoryEvery before it was told
	told mono.Time
}

// MemoryEvery is between two looks at GPUs' memories. One that did nothing since the look before is not told of.
const MemoryEvery = mono.Second

// Rates are what its loader does about now.
func (m *MemoryState) Rates(now mono.Time) MemoryRates {
	if now.Sub(m.told) > 2*MemoryEvery {
		return MemoryRates{}
	}
	return m.rate
}

// remember takes what is told of a GPU's memory.
func (g *GPUState) remember(e *Event) {
	if e.Info.Memory == nil {
		return
	}
	now, s := e.Info.Memory, g.Memory
	if s == nil {
		g.Memory = &MemoryState{MemoryInfo: *now, told: e.At}
		return
	}
	if passed := min(e.At.Sub(s.told), MemoryEvery).Seconds(); passed > 0 {
		per := func(now, before uint64) float64 { return max(0, float64(int64(now-before))) / passed }
		s.rate = MemoryRates{Cold: per(now.Cold, s.Cold), Copies: per(now.Copies, s.Copies), Failed: per(now.Failed, s.Failed),
			Room: per(now.Room, s.Room), Removed: per(now.Removed, s.Removed), Stray: per(now.Stray, s.Stray),
			Busy: min(1, max(0, (now.Busy-s.Busy).Seconds())/passed)}
	}
	s.MemoryInfo, s.told = *now, e.At
}

// Paged reports whether the pool's models come and go.
func (p *PoolState) Paged() bool { return p.Page > 0 }

// Memory is the sum over a pool's GPUs, and what their loaders do; Oldest is of the GPU whose next copy to go was used longest
// ago, and the share that they copy the mean.
func (p *PoolState) Memory(now mono.Time) (sum MemoryInfo, r MemoryRates, gpus int) {
	for i := range p.Rows {
		m := p.Rows[i].Memory
		if m == nil || !p.Rows[i].Present {
			continue
		}
		gpus++
		sum.Pages += m.Pages
		sum.Free += m.Free
		sum.Held += m.Held
		sum.Loading += m.Loading
		sum.Cold, sum.Copies, sum.Failed = sum.Cold+m.Cold, sum.Copies+m.Copies, sum.Failed+m.Failed
		sum.Room, sum.Removed, sum.Stray = sum.Room+m.Room, sum.Removed+m.Removed, sum.Stray+m.Stray
		sum.Busy += m.Busy
		if m.Oldest != 0 && (sum.Oldest == 0 || m.Oldest < sum.Oldest) {
			sum.Oldest = m.Oldest
		}
		of := m.Rates(now)
		r.Cold, r.Copies, r.Failed = r.Cold+of.Cold, r.Copies+of.Copies, r.Failed+of.Failed
		r.Room, r.Removed, r.Stray = r.Room+of.Room, r.Removed+of.Removed, r.Stray+of.Stray
		r.Busy += of.Busy
	}
	r.Busy /= float64(max(1, gpus))
	return sum, r, gpus
}

// Hits is the share of a model's requests that left in batches which found the weights there: of those between the last two
// counts if there were any, else since the model is served. false: none left.
func (m *ModelState) Hits() (share float64, ok bool) {
	if all := m.Rate.Warm + m.Rate.Cold; all > 0 {
		return m.Rate.Warm / all, true
	}
	if all := m.counts.Warm + m.counts.Cold; all > 0 {
		return float64(m.counts.Warm) / float64(all), true
	}
	return 0, false
}

// RateAt is the rates of about then. Counts are told when they change, so a model of which none came lately has no requests.
func (m *ModelState) RateAt(now mono.Time) Rates {
	if now.Sub(m.counted) > countsOld {
		return Rates{}
	}
	return m.Rate
}

const countsOld = 3 * mono.Second

// Counted is what was counted of it last.
func (m *ModelState) Counted() Info { return m.counts }
