package server

import (
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// pagesTold is what controllers are told of a paged pool's memory, and the counts that its rates begin with.
type pagesTold struct {
	loads, evictions uint64
	copied           mono.Dur
	facts            catalog.PagedFacts
}

// lookAtPages takes the second's counts. Caller holds Server.mu.
func (p *pool) lookAtPages(passed mono.Dur) {
	s := p.engine.Stats().Paging
	if s == nil {
		return
	}
	t, loads := &p.pagesTold, s.Cold+s.Copies+s.Effort
	per := func(now, before uint64) float64 { return float64(now-before) / passed.Seconds() }
	t.facts = catalog.PagedFacts{Pages: s.Pages, Free: s.PagesFree, Loads: per(loads, t.loads), Evictions: per(s.Unloads, t.evictions)}
	if n := p.alive.Load(); n > 0 {
		t.facts.Busy = min(1, float64(s.Copied-t.copied)/float64(passed)/float64(n))
	}
	t.loads, t.evictions, t.copied = loads, s.Unloads, s.Copied
}
