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

// ledger is what a scheduler knows of a stock. The scheduler's numbers of models (Stocked.Slot)
// are those of a link: its introduction gives the first ones.
type ledger struct {
	link    transport.Link // the last one that was introduced to it
	listed  int            // models in the introduction's list: the first numbers
	numbers []*entry       // nil: free
	free    []freeNumber   // oldest first
	dirty   []*entry       // to be told, in this order
}

// freeNumber may be another model's when no Bound for the one before can be on its way any more.
type freeNumber struct {
	number int
	since  mono.Time
}

// numberRest is how long a number rests.
const numberRest = 10 * mono.Second

// stockDocMax bounds the models of one Stock.
const stockDocMax = 256

// introduce lists what all devices have, for a new link, and marks all else to be told.
func (s *stock) introduce(l transport.Link, doc *catalog.Pool) (specs []catalog.ModelSpec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger = ledger{link: l}
	for _, e := range s.slots {
		if e == nil {
			continue
		}
		if e.dirty, e.number = false, -1; e.readyOnAll() {
			e.number, e.specTold = len(specs), true
			if !e.local {
				doc.Ordered, doc.Brought = append(doc.Ordered, len(specs)), append(doc.Brought, e.brought())
			}
			s.numbers, specs = append(s.numbers, e), append(specs, *e.spec)
		}
	}
	s.listed = len(specs)
	for _, e := range s.sorted() {
		if e.number < 0 {
			e.dirty, e.specTold = false, false
			s.changed(e)
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
func (s *stock) unlist(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.numbers[n:] {
		e.number, e.specTold = -1, false
		s.changed(e)
	}
	s.numbers, s.listed = s.numbers[:n], n
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

// changed has the scheduler told of an entry. Caller holds mu.
func (s *stock) changed(e *entry) {
	if e.dirty || s.link == nil {
		return
	}
	e.dirty = true
	s.dirty = append(s.dirty, e)
	s.b.wakeTeller()
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

// stocked is what the scheduler is told of an entry; false: nothing now. Caller holds mu.
func (s *stock) stocked(e *entry) (doc catalog.Stocked, ok bool) {
	state, err := e.state()
	if state == "" || e.gone && e.number < 0 {
		return doc, false
	}
	s.number(e)
	doc = catalog.Stocked{Slot: e.number, Key: e.key, State: state, Local: e.local}
	if e.gone {
		s.numbers[e.number] = nil
		s.free = append(s.free, freeNumber{e.number, mono.Now()})
		e.number = -1
		return doc, true
	}
	if err != nil {
		doc.Error = shortened(err.Error())
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
	if len(doc.Devices) > 0 && !e.specTold {
		spec := *e.spec
		doc.Spec, e.specTold = &spec, true
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

// number gives an entry one, if it has none. Caller holds mu.
func (s *stock) number(e *entry) {
	if e.number >= 0 {
		return
	}
	if len(s.free) > 0 && mono.Now().Sub(s.free[0].since) > numberRest {
		e.number = s.free[0].number
		s.free = s.free[1:]
		s.numbers[e.number] = e
		return
	}
	e.number = len(s.numbers)
	s.numbers = append(s.numbers, e)
}

// tellSome tells a link's scheduler of some of what it does not know yet; false: it knows all,
// or cannot be told.
func (s *stock) tellSome(l transport.Link) bool {
	s.mu.Lock()
	if !s.introducedBy(l) || len(s.dirty) == 0 {
		s.mu.Unlock()
		return false
	}
	n := min(len(s.dirty), stockDocMax)
	doc := catalog.Stock{Pool: s.index}
	for _, e := range s.dirty[:n] {
		e.dirty = false
		if one, ok := s.stocked(e); ok {
			doc.Models = append(doc.Models, one)
		}
	}
	s.dirty = slices.Clone(s.dirty[n:])
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
func (b *Backend) wakeTeller() {
	select {
	case b.telling <- struct{}{}:
	default:
	}
}

// tell tells the scheduler what becomes of models, until the backend ends.
func (b *Backend) tell() {
	for {
		select {
		case <-b.telling:
		case <-b.stop:
			return
		}
		l := b.scheduler.Load()
		if l == nil {
			continue // all is told when there is one
		}
		for _, p := range b.pools {
			for p.stock.tellSome(*l) {
			}
		}
	}
}
