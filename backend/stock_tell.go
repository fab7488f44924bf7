package backend

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// ledger is what a scheduler knows of a stock: each of the group has one. The scheduler's numbers
// of models (Stocked.Slot) are those of a link: its introduction gives the first ones.
type ledger struct {
	scheduler *uplink
	link      transport.Link // the last one that was introduced to it
	listed    int            // models in the introduction's list: the first numbers
	numbers   []*entry       // nil: free
	free      []freeNumber   // oldest first
	dirty     []*entry       // to be told, in this order
	missed    bool           // devices were told what they shall have since it was introduced
}

// freeNumber may be another model's when no Bound for the one before can be on its way any more.
type freeNumber struct {
	number int
	since  mono.Time
}

// heard is what a scheduler knows of an entry.
type heard struct {
	number int  // what it calls it; -1: it has not heard of it
	dirty  bool // it is to be told
	spec   bool // it has its specification
}

// unheard is what schedulers know of a new entry.
func (s *stock) unheard() []heard {
	all := make([]heard, len(s.ledgers))
	for i := range all {
		all[i].number = -1
	}
	return all
}

// respecify has all schedulers told an entry's specification anew. Caller holds the stock's mu.
func (e *entry) respecify() {
	for i := range e.heard {
		e.heard[i].spec = false
	}
}

// numberRest is how long a number rests.
const numberRest = 10 * mono.Second

// stockDocMax bounds the models of one Stock.
const stockDocMax = 256

// introduce lists what all devices have, for a new link, and marks all else to be told.
func (s *stock) introduce(u *uplink, l transport.Link, doc *catalog.Pool) (specs []catalog.ModelSpec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := &s.ledgers[u.index]
	*k = ledger{scheduler: u, link: l}
	for _, e := range s.entries {
		e.heard[u.index] = heard{number: -1} // also of what has no slot: it failed before it got one
	}
	for _, e := range s.slots {
		if e != nil && !e.hidden && e.readyOnAll() {
			e.heard[u.index] = heard{number: len(specs), spec: true}
			if !e.local {
				doc.Ordered, doc.Brought = append(doc.Ordered, len(specs)), append(doc.Brought, e.brought())
			}
			k.numbers, specs = append(k.numbers, e), append(specs, *e.spec)
		}
	}
	k.listed = len(specs)
	for _, e := range s.sorted() {
		if e.heard[u.index].number < 0 {
			k.changed(e)
		}
	}
	for d := range s.devices {
		doc.In = append(doc.In, s.devices[d].in)
	}
	if !slices.ContainsFunc(doc.In, func(name string) bool { return name != "" }) {
		doc.In = nil
	}
	doc.Told = s.repeated()
	return specs
}

// unlist takes the models from index n on off the introduction's list: they are told of by
// Stock.
func (s *stock) unlist(u *uplink, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := &s.ledgers[u.index]
	for _, e := range k.numbers[n:] {
		h := &e.heard[u.index]
		h.number, h.spec = -1, false
		k.changed(e)
	}
	k.numbers, k.listed = k.numbers[:n], n
}

// sorted are the entries by key. Caller holds mu.
func (s *stock) sorted() []*entry {
	all := make([]*entry, 0, len(s.entries))
	for _, e := range s.entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int {
		if a.key < b.key {
			return -1
		}
		return 1
	})
	return all
}

// changed has the schedulers told of an entry. Caller holds mu.
func (s *stock) changed(e *entry) {
	if e.hidden {
		if e = e.succeeds; e == nil {
			return
		}
	}
	for i := range s.ledgers {
		s.ledgers[i].changed(e)
	}
}

// changed has a scheduler told of an entry. Caller holds the stock's mu.
func (k *ledger) changed(e *entry) {
	if k.link == nil || e.heard[k.scheduler.index].dirty {
		return
	}
	e.heard[k.scheduler.index].dirty = true
	k.dirty = append(k.dirty, e)
	k.scheduler.wakeTeller()
}

// state is how it is with a model, on those devices that have it not; ready: all that are to
// have it do. What is under way goes before what has failed. Caller holds mu.
func (e *entry) state() (state string, err error) {
	if e.gone {
		return catalog.StateGone, nil
	}
	waits, loads, has := false, false, false
	for d := range e.on {
		p := &e.on[d]
		waits = waits || p.wanted && p.stage == queued && e.files != filesHere
		loads = loads || p.wanted && (p.stage == loading || p.stage == leaving || p.stage == queued && e.files == filesHere)
		has = has || p.wanted && p.stage == loaded
		if p.wanted && p.err != nil {
			err = p.err
		}
	}
	if e.err != nil {
		err = e.err
	}
	switch {
	case e.next != nil:
		return catalog.StateFetching, nil
	case waits && err == nil:
		return catalog.StateFetching, nil
	case loads:
		return catalog.StateLoading, nil
	case err != nil:
		return catalog.StateFailed, err
	case has && !e.profiled, e.measuring >= 0:
		return catalog.StateMeasuring, nil
	case has:
		return catalog.StateReady, nil
	}
	if e.grace { // let go of it: it goes
		return catalog.StateLoading, nil
	}
	return "", nil // it is wanted nowhere, and not gone yet
}

// stocked is what a scheduler is told of an entry; false: nothing now. Caller holds mu.
func (s *stock) stocked(k *ledger, e *entry) (doc catalog.Stocked, ok bool) {
	state, err := e.state()
	h := &e.heard[k.scheduler.index]
	if state == "" || e.gone && h.number < 0 {
		return doc, false
	}
	k.number(e)
	doc = catalog.Stocked{Slot: h.number, Key: e.key, State: state, Local: e.local}
	if e.gone {
		k.numbers[h.number] = nil
		k.free = append(k.free, freeNumber{h.number, mono.Now()})
		h.number = -1
		return doc, true
	}
	if err != nil {
		doc.Error = shortened(err.Error())
	}
	if err := e.outdated(); err != nil {
		doc.Outdated = shortened(err.Error())
	}
	doc.Static, doc.Dynamic = e.need.static, e.need.dynamic
	if state == catalog.StateFetching {
		doc.Done, doc.Total = e.done, e.total
	}
	for d := range e.on {
		if e.ready(d) {
			doc.Devices = append(doc.Devices, d)
		}
		doc.Static, doc.Dynamic = max(doc.Static, e.on[d].need.static), max(doc.Dynamic, e.on[d].need.dynamic)
	}
	if len(doc.Devices) > 0 {
		doc.Files = e.brought()
	}
	if len(doc.Devices) > 0 && !h.spec {
		spec := *e.spec
		doc.Spec, h.spec = &spec, true
	}
	return doc, true
}

// errorMax bounds a reason: documents have limits on strings.
const errorMax = 2000

func shortened(text string) string {
	if len(text) > errorMax {
		return text[:errorMax] + "..."
	}
	return text
}

// number gives an entry one, if it has none. Caller holds the stock's mu.
func (k *ledger) number(e *entry) {
	h := &e.heard[k.scheduler.index]
	if h.number >= 0 {
		return
	}
	if len(k.free) > 0 && mono.Now().Sub(k.free[0].since) > numberRest {
		h.number = k.free[0].number
		k.free = k.free[1:]
		k.numbers[h.number] = e
		return
	}
	h.number = len(k.numbers)
	k.numbers = append(k.numbers, e)
}

// introducedBy is what the scheduler on a link knows; nil: the link is not the one that was
// introduced last. Caller holds mu.
func (s *stock) introducedBy(u *uplink, l transport.Link) *ledger {
	if k := &s.ledgers[u.index]; k.link != nil && k.link == l {
		return k
	}
	return nil
}

// tellSome tells a link's scheduler of some of what it does not know yet; false: it knows all,
// or cannot be told.
func (s *stock) tellSome(u *uplink, l transport.Link) bool {
	s.mu.Lock()
	k := s.introducedBy(u, l)
	if k == nil || len(k.dirty) == 0 {
		s.mu.Unlock()
		return false
	}
	n := min(len(k.dirty), stockDocMax)
	doc := catalog.Stock{Pool: s.index}
	for _, e := range k.dirty[:n] {
		e.heard[u.index].dirty = false
		if one, ok := s.stocked(k, e); ok {
			doc.Models = append(doc.Models, one)
		}
	}
	k.dirty = slices.Clone(k.dirty[n:])
	s.mu.Unlock()
	if len(doc.Models) == 0 {
		return true
	}
	payload, err := json.Marshal(doc)
	if err != nil {
		l.Close(err)
		return false
	}
	for {
		err := l.SendPayload((&wire.Doc{Type: wire.DocStock}).Append(nil, len(payload)), payload, nil)
		if !errors.Is(err, transport.ErrFull) {
			return err == nil // else the next introduction tells all
		}
		if !s.sleep(s.ctx, fullPause) {
			return false
		}
	}
}

// fullPause is waited where a link takes nothing more now.
const fullPause = 20 * time.Millisecond

// wakeTeller has the scheduler told of what changed, from a goroutine of its own.
func (u *uplink) wakeTeller() {
	select {
	case u.telling <- struct{}{}:
	default:
	}
}

// tell tells the scheduler what becomes of models, until the backend ends. (Each has a goroutine:
// one that stands still holds up no other.)
func (u *uplink) tell() {
	for {
		select {
		case <-u.telling:
		case <-u.b.stop:
			return
		}
		l := u.link.Load()
		if l == nil {
			continue // all is told when there is one
		}
		for _, p := range u.b.pools {
			for p.stock.tellSome(u, *l) {
			}
		}
	}
}
