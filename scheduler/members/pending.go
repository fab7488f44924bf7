package members

import (
	"slices"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// pendings are the models that some backend has, or is about to have, and that are not served: frontends
// answer requests for them with loading, or with why they failed. Each item counts once, by its state.
type pendings struct {
	byKey   map[string]*pend
	all     []*pend
	touched []*pend // in the event at hand
	coming  []*pend // of a backend that has not joined yet (Expect)
	swept   mono.Time
}

// States of an item, as they are counted.
const (
	pendNot = iota
	pendLoading
	pendFailed
	pendReady
	pendStates
)

// pend counts one model's items. Once the model is pending no longer frontends are told so, and then it is forgotten.
type pend struct {
	key     string
	items   [pendStates]int
	why     string // the last one failed
	doc     catalog.Pending
	changed uint64
	at      mono.Time
	touched bool
}

func pendOf(state string) int {
	switch state {
	case catalog.StateFetching, catalog.StateLoading, catalog.StateMeasuring:
		return pendLoading
	case catalog.StateFailed:
		return pendFailed
	case catalog.StateReady:
		return pendReady
	}
	return pendNot
}

// whyMax bounds the reason of a failure that frontends are told, in bytes.
const whyMax = 200

// pends counts an item as what it is now.
func (c *Cluster) pends(it *item, now int) {
	if it.pending == now && now != pendFailed {
		return
	}
	p := c.pend(it.key, now != pendNot)
	if p == nil {
		return
	}
	if it.pending != pendNot {
		p.items[it.pending]--
	}
	if now != pendNot {
		p.items[now]++
	}
	if it.pending = now; now == pendFailed {
		p.why = it.why[:min(len(it.why), whyMax)]
	}
	c.touch(p)
}

// pend finds a model's, or begins it; nil: there is none, and there are as many as may be.
func (c *Cluster) pend(key string, begin bool) *pend {
	p := c.pendings.byKey[key]
	if p == nil && begin && len(c.pendings.byKey) < catalog.PendingMax {
		if c.pendings.byKey == nil {
			c.pendings.byKey = map[string]*pend{}
		}
		name, version := nameOf(key), key[len(nameOf(key))+1:]
		p = &pend{key: key, doc: catalog.Pending{Name: name, Version: version}}
		c.pendings.byKey[key] = p
		c.pendings.all = append(c.pendings.all, p)
	}
	return p
}

func (c *Cluster) touch(p *pend) {
	if p != nil && !p.touched {
		p.touched = true
		c.pendings.touched = append(c.pendings.touched, p)
	}
}

// touchKey has a model looked at that began to be served, or is served no longer.
func (c *Cluster) touchKey(key string) { c.touch(c.pendings.byKey[key]) }

// tellPending notes for frontends what an event has changed.
func (c *Cluster) tellPending() {
	for _, p := range c.pendings.touched {
		p.touched = false
		doc := catalog.Pending{Name: p.doc.Name, Version: p.doc.Version}
		if doc.State = c.pendState(p); doc.State == catalog.StateFailed {
			doc.Why = p.why
		}
		if doc != p.doc {
			p.doc, p.changed, p.at = doc, c.tell(), c.now
		}
	}
	c.pendings.touched = c.pendings.touched[:0]
	c.pendings.sweep(c.now)
}

func (c *Cluster) pendState(p *pend) string {
	m := c.models.byKey[p.key]
	switch {
	case m != nil && (m.home != nil || m.pin == pinNever):
		return ""
	case p.items[pendLoading] > 0:
		return catalog.StateLoading
	case p.items[pendFailed] > 0:
		return catalog.StateFailed
	case p.items[pendReady] > 0:
		return catalog.StateReady
	}
	return ""
}

// sweep forgets models that are pending no longer, and that all frontends have been told so of.
func (s *pendings) sweep(now mono.Time) {
	if len(s.all) == 0 || now.Sub(s.swept) < sweepEvery {
		return
	}
	s.swept = now
	s.all = slices.DeleteFunc(s.all, func(p *pend) bool {
		forget := p.items == [pendStates]int{} && p.doc.State == "" && now.Sub(p.at) > rest
		if forget {
			delete(s.byKey, p.key)
		}
		return forget
	})
}

// since are those that changed after a serial and up to another one.
func (s *pendings) since(since, serial uint64) (out []catalog.Pending) {
	for _, p := range s.all {
		if p.changed > since && p.changed <= serial && (p.doc.State != "" || since > 0) {
			out = append(out, p.doc)
		}
	}
	return out
}

// Expect notes the models of a backend that has not joined yet. They replace those that were noted before.
func (c *Cluster) Expect(now mono.Time, keys []string, out *Effects) {
	c.begin(now, out)
	for _, p := range c.pendings.coming {
		p.items[pendLoading]--
		c.touch(p)
	}
	c.pendings.coming = nil
	for _, key := range keys {
		if nameOf(key) == "" {
			continue
		}
		if p := c.pend(key, true); p != nil {
			p.items[pendLoading]++
			c.pendings.coming = append(c.pendings.coming, p)
			c.touch(p)
		}
	}
	c.settle("what is to come")
}
