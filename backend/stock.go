package backend

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// stock is a pool's models: what each device has, and what it shall have. Whoever wants
// something says so (want, unwant) and settle brings it about, a step at a time:
//
//	files:   none --> fetching --> here                      once for all devices of the pool
//	device:  absent --> queued --> loading --> loaded --> leaving --> absent
//	profile: stored here, given, or measured on a device that has nothing to do, if there is one
//
// Loading and fetching are done by goroutines that end when there is nothing left to do; the
// request path sees none of it but its end: a slot of executor and device that is filled, or
// emptied when nothing of it is under way any more.
//
// # Rules
//
//  1. A device tells that it has a model when the model is loaded there and has a profile.
//  2. What is wanted and fails is tried again, after 1 s and then twice as long each time, up
//     to 5 min; at once when it is ordered anew. Others are not touched by it.
//  3. What is wanted no more is stopped where it is, and given back.
//  4. A slot is given to another model when no id of the scheduler's leads to it any more.
type stock struct {
	b     *Backend // Immutable, and so are the next ones.
	p     *pool
	index int // of the pool
	ctx   context.Context
	stop  context.CancelFunc
	work  sync.WaitGroup
	grace time.Duration // how long a model that goes by itself is still run
	after time.Duration // how long outputs of a model with new files are marked as such
	left  line[departure]

	mu      sync.Mutex // Guards what follows.
	entries map[string]*entry
	hidden  map[*entry]bool // those that are not their key's: see stock_successor.go
	slots   []*entry        // nil: free
	devices []stockedDevice
	routed  map[string]*routed // by sub-cluster
	closed  bool
	ledgers []ledger // by scheduler of the group: what it knows
}

// stockedDevice is a device, as far as models come and go there.
type stockedDevice struct {
	in      string   // sub-cluster that it was told last
	queue   []*entry // to be loaded, in this order
	loading bool     // a goroutine is at it
	leaving int      // models that are being unloaded
	short   []*entry // models for which it had no room
	static  int64    // bytes that those take that are loaded, or being loaded
}

// stage of a model on a device.
type stage uint8

const (
	absent stage = iota
	queued
	loading
	loaded
	leaving
)

// presence is a model on one device.
type presence struct {
	wanted bool
	stage  stage
	cancel context.CancelFunc // of the loading
	err    error              // why it is not there; until it is tried again
	need   need
}

// need is what a model takes of a device's memory: while it is loaded, and beyond that while
// it runs; bytes.
type need struct{ static, dynamic int64 }

// entry is a model of the pool.
type entry struct {
	key    string
	source catalog.Source
	local  bool // the backend's own: model says where it lies

	// Other files under this key, for when no device has these any more. nextModel: of one
	// that is the backend's own.
	next      *catalog.Source
	nextModel *repository.Model

	// While what is served goes on: see stock_successor.go.
	successor *entry    // with the new files; nil: there is none
	succeeds  *entry    // whose successor it is; nil: it is none
	heir      *entry    // that has taken its place
	hidden    bool      // it is not its key's entry
	refused   error     // why the files that are there now cannot be read; nil: they can, as far as is known
	due       time.Time // when the successor may take its place; 0: it is not ready yet

	files    files
	stopGet  context.CancelFunc
	giveBack func() // the files
	grace    bool   // batches for it are on their way while it goes: see leave
	done     int64  // of their bytes
	total    int64

	got   catalog.Files      // its files, while they are here
	own   ownSettings        // likewise
	model *repository.Model  // as its files have it; nil: not read yet
	spec  *catalog.ModelSpec // as it is served; replaced when it changes
	exec  *executor.Model
	need  need
	slot  int // -1: none yet
	on    []presence
	gone  bool
	err   error // of files, configuration or profile; until it is tried again

	profiled  bool
	measured  bool   // by this host, on such a device: there is nothing to be measured
	measureOn []bool // by device: it was ordered to
	later     bool   // not before it is tried again: there was no room
	measuring int    // the device that it is measured for; -1: none
	unread    bool   // its folder could not be read: it is listed with the reason (broken.go)
	stopRuns  context.CancelFunc

	retry    retry
	learning learning

	heard []heard // by scheduler of the group
}

// files of a model.
type files uint8

const (
	filesNone files = iota
	filesFetching
	filesHere
)

func newStock(b *Backend, p *pool, index int) *stock {
	s := &stock{b: b, p: p, index: index, entries: map[string]*entry{}, hidden: map[*entry]bool{}, devices: make([]stockedDevice, len(p.devices)), grace: graceTime, after: afterTime,
		ledgers: make([]ledger, len(b.uplinks))}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// newEntry makes a model that nobody wants yet. Caller holds mu.
func (s *stock) newEntry(source catalog.Source) *entry {
	e := s.blankEntry(source)
	s.entries[e.key] = e
	return e
}

func (s *stock) blankEntry(source catalog.Source) *entry {
	return &entry{key: source.Key(), source: source, slot: -1, heard: s.unheard(), measuring: -1, on: make([]presence, len(s.devices)), measureOn: make([]bool, len(s.devices))}
}

// seed takes what the pool was built with: all devices have it.
func (s *stock) seed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.p.specs {
		m := &s.p.built[i]
		e := s.newEntry(catalog.Source{Name: m.Spec.Name, Version: m.Spec.Version})
		e.local, e.model, e.files, e.profiled, e.measured = true, m, filesHere, true, true
		e.spec, e.exec, e.slot, e.giveBack = &s.p.specs[i], &s.p.models[i], i, s.p.copies[m.Files]
		s.slots = append(s.slots, e)
		for d := range e.on {
			e.on[d] = presence{wanted: true, stage: loaded, need: s.p.loader.held(d, i, m)}
			s.devices[d].static += e.on[d].need.static
		}
	}
	for i := range s.p.refused {
		r := &s.p.refused[i]
		if s.entries[r.model.Spec.Key()] != nil {
			continue
		}
		e := s.newEntry(catalog.Source{Name: r.model.Spec.Name, Version: r.model.Spec.Version})
		e.local, e.model, e.files = true, &r.model, filesNone
		for d := range e.on {
			e.on[d].wanted = true
		}
		s.failed(e, r.err, true)
	}
}

// endMost bounds what the end of a backend waits for those who load.
const endMost = 5 * time.Second

// end stops what is under way, and waits for it.
func (s *stock) end() {
	s.stop()
	s.mu.Lock()
	s.closed = true
	for e := range s.all() {
		e.retry.stop()
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.work.Wait()
	}()
	late := time.NewTimer(endMost)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C: // a library that loads, a driver that hangs: what comes of it finds the device closed
		s.b.log.Warn().Str("pool", s.p.doc.DeviceType).Msg("a model is still being loaded, and left alone")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.all() {
		e.release()
	}
}

// all are the entries, those that are hidden among them. Caller holds mu.
func (s *stock) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for _, e := range s.entries {
			if !yield(e) {
				return
			}
		}
		for e := range s.hidden {
			if !yield(e) {
				return
			}
		}
	}
}

// release gives the files back. Caller holds the stock's mu.
func (e *entry) release() {
	if e.giveBack != nil {
		e.giveBack()
		e.giveBack = nil
	}
}

// settle brings an entry a step closer to what is wanted. Caller holds mu.
func (s *stock) settle(e *entry) {
	if e.gone || s.closed {
		return
	}
	s.lead(e)
	wanted := slices.ContainsFunc(e.on, func(p presence) bool { return p.wanted })
	if !wanted || e.next != nil {
		if e.files == filesFetching {
			e.stopGet()
		}
		if e.measuring >= 0 {
			e.stopRuns()
		}
	}
	if !wanted {
		e.retry.forget()
		e.err, e.later = nil, false
	}
	for d := range e.on {
		s.settleOn(e, d)
	}
	empty := e.files != filesFetching && e.measuring < 0 && !slices.ContainsFunc(e.on, func(p presence) bool { return p.stage != absent && p.stage != queued })
	switch {
	case empty && e.next != nil:
		s.replace(e)
	case empty && !wanted:
		s.remove(e)
	case wanted && e.next == nil && e.files == filesNone && e.err == nil:
		s.fetch(e)
	}
	s.measureIfDue(e)
	s.changed(e)
	s.takeOver(e)
}

// settleOn does that on one device. Caller holds mu.
func (s *stock) settleOn(e *entry, d int) {
	p, at := &e.on[d], &s.devices[d]
	wanted := p.wanted && e.next == nil
	if !p.wanted {
		p.err, e.measureOn[d] = nil, false
	}
	switch {
	case wanted && p.stage == absent && p.err == nil && e.err == nil:
		p.stage = queued
		at.queue = append(at.queue, e)
		s.kick(d)
	case p.stage == queued && (!wanted || e.err != nil):
		p.stage = absent
		at.queue = slices.DeleteFunc(at.queue, func(o *entry) bool { return o == e })
	case p.stage == queued:
		s.kick(d)
	case !wanted && p.stage == loading:
		p.cancel()
	case !wanted && p.stage == loaded && e.measuring == d:
		e.stopRuns() // it comes back when they have ended
	case !wanted && p.stage == loaded:
		p.stage = leaving
		at.leaving++
		slot, grace := e.slot, e.grace
		heir := e.heir
		s.work.Go(func() {
			if heir == nil || s.awaitNamed(heir) {
				s.leave(e, d, slot, grace)
			}
		})
	}
}

// replace lets other files take the key's place. Caller holds mu.
func (s *stock) replace(e *entry) {
	s.freeSlot(e)
	e.release()
	e.local = e.nextModel != nil
	e.source, e.model, e.next, e.nextModel = *e.next, e.nextModel, nil, nil
	e.files, e.exec, e.spec, e.done, e.total, e.got = filesNone, nil, nil, 0, 0, catalog.Files{}
	e.err, e.refused, e.profiled, e.measured, e.later, e.grace = nil, nil, false, false, false, false
	e.learning, e.unread = learning{}, false
	e.respecify()
	s.settle(e)
}

// remove forgets a model that nobody wants and no device has. Caller holds mu.
func (s *stock) remove(e *entry) {
	s.freeSlot(e)
	e.release()
	e.gone = true
	delete(s.hidden, e)
	if e.succeeds != nil {
		e.succeeds.successor, e.succeeds = nil, nil
	}
	if s.entries[e.key] == e {
		delete(s.entries, e.key)
	}
	s.b.metrics.forget(s, e)
}

// freeSlot gives up its slot, if it has one. Caller holds mu.
func (s *stock) freeSlot(e *entry) {
	if e.slot < 0 {
		return
	}
	s.b.unbind(s.index, e.slot)
	s.slots[e.slot] = nil
	s.p.setSpec(e.slot, nil)
	e.slot = -1
}

// takeSlot gives a model one. Caller holds mu.
func (s *stock) takeSlot(e *entry) {
	if e.slot >= 0 {
		return
	}
	e.slot = slices.Index(s.slots, nil)
	if e.slot < 0 {
		e.slot = len(s.slots)
		s.slots = append(s.slots, nil)
	}
	s.slots[e.slot] = e
	s.p.setSpec(e.slot, e.spec)
	s.b.metrics.count(s.p, e.slot, e.spec.Name)
}

// ready reports whether a device has the model and may run it. Caller holds mu.
func (e *entry) ready(d int) bool {
	return e.profiled && e.on[d].stage == loaded && e.on[d].wanted && e.next == nil
}

// readyOnAll reports whether all have. Caller holds mu.
func (e *entry) readyOnAll() bool {
	for d := range e.on {
		if !e.ready(d) {
			return false
		}
	}
	return true
}
