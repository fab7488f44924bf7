package soak

import (
	"fmt"
	"slices"
)

// gauge is something of a process that must not grow for ever.
type gauge struct {
	name    string
	metrics string  // its name in /metrics
	add     float64 // bounds of growth: so much,
	times   float64 // and this share of what it was
	quiet   float64 // without load: so much more than before the first request; 0: not compared
}

const mib = 1 << 20

// gauges are compared between the begin and the end of each life. Below the bounds are
// collections, caches, and the buffers for batches of the largest inputs, which a backend
// makes as it meets them. Above are 50 bytes for each request in the process that loads
// for half an hour, a goroutine for each lost connection, and 500 bytes a request in
// a scheduler that lives for the two minutes between its kills.
func gauges() []gauge {
	return []gauge{
		{"heap", "go_gc_heap_live_bytes", 48 * mib, 0.3, 0},
		{"memory", "process_resident_memory_bytes", 80 * mib, 0.3, 0},
		{"files", "process_open_fds", 32, 0.3, 6},                       // under load as many as there are HTTP connections
		{"goroutines", "go_goroutines", 64 + floodConnections, 0.3, 10}, // the HTTP server keeps a flood's for 20 s
		{"threads", "go_threads", 12, 0, 0},
	}
}

// held are gauges that must be at most this once every request is answered.
func held() map[string]float64 {
	return map[string]float64{"symphony_requests_in_flight": 0, "symphony_arena_slabs": 0, "symphony_queue_requests": 0,
		"symphony_http_requests_in_flight": 1} // who asks for the metrics
}

// life is what one life of a part used.
type life struct {
	Part    string               `json:"part"`
	Life    int                  `json:"life"`
	Samples int                  `json:"samples"`
	First   map[string]float64   `json:"first"` // least of the first third of the samples
	Last    map[string]float64   `json:"last"`  // least of the last third
	series  map[string][]float64 // by gauge
}

// usage is the record of all processes.
type usage struct {
	lives []*life
}

// samplesLeast is how many a life needs to be judged; of its first quarter, which is
// left out, at most youthMost are.
const (
	samplesLeast = 12
	youthMost    = 24
)

// add takes a sample of a part.
func (u *usage) add(part string, number int, sums map[string]float64) {
	i := slices.IndexFunc(u.lives, func(l *life) bool { return l.Part == part && l.Life == number })
	if i < 0 {
		i = len(u.lives)
		u.lives = append(u.lives, &life{Part: part, Life: number, series: map[string][]float64{}})
	}
	l := u.lives[i]
	l.Samples++
	for _, g := range gauges() {
		if v, ok := sums[g.metrics]; ok { // not every system tells all
			l.series[g.name] = append(l.series[g.name], v)
		}
	}
}

// judge fills in the lives and says what grew. The least of several samples is
// compared: a connection that was just open is no leak.
func (u *usage) judge() (wrong []string) {
	for _, l := range u.lives {
		l.First, l.Last = map[string]float64{}, map[string]float64{}
		for _, g := range gauges() {
			s := l.series[g.name]
			if len(s) == 0 {
				continue
			}
			n := len(s)
			s = s[min(n/4, youthMost):]
			third := max(1, len(s)/3)
			first, last := slices.Min(s[:third]), slices.Min(s[len(s)-third:])
			l.First[g.name], l.Last[g.name] = first, last
			if n >= samplesLeast && last > first+g.add+g.times*first {
				wrong = append(wrong, fmt.Sprintf("%s (life %d): %s grew from %.0f to %.0f over %d samples", l.Part, l.Life, g.name, first, last, n))
			}
		}
	}
	return wrong
}
