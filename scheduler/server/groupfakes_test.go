package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/standby"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// grouped is a fake process with a link to each scheduler of a group, which is dialled until it is up.
type grouped struct {
	t       *testing.T
	host    *site
	place   []*uplink
	cancel  context.CancelFunc
	mu      sync.Mutex // Guards what follows, and what is below it in those that embed this.
	numbers standby.Link
}

// uplink is one of them. Guarded by grouped.mu.
type uplink struct {
	g      *grouped
	index  int
	keeper *transport.Keeper
	link   transport.Link // admitted; nil: not
	number standby.Link
	to     groupHandler
}

type groupHandler interface {
	introduce(u *uplink, l transport.Link)
	document(u *uplink, l transport.Link, t wire.DocType, payload []byte) error
	frame(u *uplink, l transport.Link, f transport.Frame)
	ended(u *uplink)
}

func (g *grouped) join(w *world, name string, role wire.Role, to groupHandler, schedulers ...string) {
	g.t, g.host = w.t, w.host(name)
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	for i := range schedulers {
		g.place = append(g.place, &uplink{g: g, index: i, to: to})
	}
	for i, s := range schedulers {
		u := g.place[i]
		u.keeper = transport.KeepWith(ctx, transport.KeepConfig{Network: g.host, Address: "inproc:" + s, Handler: u, Seed: rand.Uint64(),
			Options: transport.Options{Hello: wire.Hello{Role: role, Name: name}}, OnUp: func(l transport.Link) { to.introduce(u, l) }})
	}
	w.t.Cleanup(g.end)
}

func (g *grouped) end() {
	g.host.pause(false)
	g.cancel()
	for _, u := range g.place {
		<-u.keeper.Done()
	}
}

func (*uplink) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

func (u *uplink) Receive(l transport.Link, f transport.Frame) {
	u.g.mu.Lock()
	defer u.g.mu.Unlock()
	if f.Kind != wire.KindDoc {
		u.to.frame(u, l, f)
		return
	}
	var d wire.Doc
	if err := d.Decode(f.Body); err != nil {
		u.g.t.Error(err)
	}
	if err := u.to.document(u, l, d.Type, f.Payload); err != nil {
		u.g.t.Error(err)
	}
}

func (u *uplink) Closed(transport.Link, error) {
	u.g.mu.Lock()
	defer u.g.mu.Unlock()
	if u.link != nil {
		u.to.ended(u)
		u.link = nil
	}
}

// admitted gives the link a number.
func (u *uplink) admitted(l transport.Link) {
	u.g.numbers++
	u.link, u.number = l, u.g.numbers
}

// fakeBackend has devices that take as long as batches are planned to, and keeps what it promises.
type fakeBackend struct {
	grouped
	name     string
	instance uint64
	devices  int
	specs    []catalog.ModelSpec
	list     []byte
	digest   catalog.Digest
	fronts   *fakeFronts

	core    standby.Backend
	effects standby.Effects
	hangs   bool                               // its devices never end
	chills  bool                               // the next batch that ends is given back whole, as one whose weights went
	refuses bool                               // it promises nobody anything
	who     map[int]map[wire.FrontendID]uint64 // frontends' instances, by scheduler
	queued  []*fakeRun
	granted map[wire.Epoch]bool // reigns that were ever promised
	stale   int                 // orders that were not obeyed
	ran     map[wire.Epoch]int  // batches that began, by reign
	keeps   int                 // orders of what to have that were obeyed
}

// fakeRun is a batch on its way.
type fakeRun struct {
	wire.Batch
	instances      []uint64 // of its items' frontends
	begun, dropped bool
}

// fakeFronts finds frontends by their instances, as data links do.
type fakeFronts struct {
	mu sync.Mutex
	of map[uint64]*fakeFrontend
}

func (w *world) backend(fronts *fakeFronts, name string, devices int, models []catalog.ModelSpec, schedulers ...string) *fakeBackend {
	b := &fakeBackend{name: name, instance: rand.Uint64(), devices: devices, fronts: fronts, who: map[int]map[wire.FrontendID]uint64{}, granted: map[wire.Epoch]bool{}, ran: map[wire.Epoch]int{}}
	b.specs = models
	var err error
	if b.list, b.digest, err = catalog.EncodeModels(b.specs); err != nil {
		w.t.Fatal(err)
	}
	b.join(w, name, wire.RoleBackend, b, schedulers...)
	return b
}

func (b *fakeBackend) introduce(_ *uplink, l transport.Link) {
	transport.SendDoc(l, wire.DocBackend, catalog.BackendInfo{Name: b.name, Instance: b.instance, Configured: 1,
		Pools: []catalog.Pool{{DeviceType: "emulated", Devices: b.devices, Models: b.digest, Runtime: true}}})
}

func (b *fakeBackend) document(u *uplink, l transport.Link, t wire.DocType, payload []byte) error {
	switch t {
	case wire.DocAdmitted:
		a, err := catalog.DecodeAdmitted(payload)
		if err != nil || a.Error != "" { // it comes again
			return err
		}
		u.admitted(l)
		b.who[u.index] = map[wire.FrontendID]uint64{}
		b.core.Up(u.number, uint64(a.Epoch), &b.effects)
		b.perform()
	case wire.DocWant:
		_ = l.SendPayload((&wire.Doc{Type: wire.DocModels}).Append(nil, len(b.list)), b.list, nil)
	case wire.DocKeep:
		if b.core.Obeyed() != u.number {
			b.t.Errorf("backend %s is told what to have by scheduler %d, whom it does not obey", b.name, u.index)
			return nil
		}
		b.keeps++
		for _, other := range b.place { // as real ones do
			if other != u && other.link != nil {
				_ = other.link.SendPayload((&wire.Doc{Type: wire.DocKeep}).Append(nil, len(payload)), slices.Clone(payload), nil)
			}
		}
	}
	return nil
}

func (b *fakeBackend) frame(u *uplink, l transport.Link, f transport.Frame) {
	switch f.Kind {
	case wire.KindMember:
		var m wire.Member
		if err := m.Decode(f.Body); err != nil {
			b.t.Error(err)
		}
		if m.Up {
			b.who[u.index][m.Frontend] = m.Instance
		} else {
			delete(b.who[u.index], m.Frontend)
		}
	case wire.KindPromise:
		var m wire.Promise
		if err := m.Decode(f.Body); err != nil {
			b.t.Error(err)
		}
		if !b.refuses {
			b.core.Promise(u.number, m, &b.effects)
			b.perform()
		}
	case wire.KindBatch:
		var m wire.Batch
		if err := m.Decode(f.Body, l.Shift()); err != nil {
			b.t.Error(err)
		}
		b.order(u, m)
	}
}

func (b *fakeBackend) order(u *uplink, m wire.Batch) {
	if !b.granted[m.Epoch] {
		b.t.Errorf("backend %s has an order of reign %d, which it has never promised", b.name, m.Epoch)
	}
	if !b.core.Obeys(u.number, m.Epoch) {
		b.stale++
		return
	}
	r := &fakeRun{Batch: m}
	r.Items = slices.Clone(m.Items)
	for _, it := range r.Items {
		instance, known := b.who[u.index][it.Frontend]
		if !known {
			b.t.Errorf("backend %s has a batch of frontend %d, of which it has not heard", b.name, it.Frontend)
		}
		r.instances = append(r.instances, instance)
	}
	b.queued = append(b.queued, r)
	time.AfterFunc(max(0, m.Exec.Sub(mono.Now()).Std()), func() { b.begin(r) })
}

func (b *fakeBackend) begin(r *fakeRun) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.dropped {
		return
	}
	r.begun = true
	b.ran[r.Epoch]++
	for i := range r.Items {
		if f := b.fronts.find(r.instances[i]); f != nil {
			f.runs(r.Items[i].Request)
		}
	}
	time.AfterFunc(max(0, r.Until.Sub(mono.Now()).Std()), func() { b.finish(r) })
}

func (b *fakeBackend) finish(r *fakeRun) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hangs || b.host.dead.Load() {
		return
	}
	b.queued = slices.DeleteFunc(b.queued, func(x *fakeRun) bool { return x == r })
	d := wire.Done{Epoch: r.Epoch, Batch: r.Batch.Batch, Ready: r.Exec, Start: r.Exec, End: mono.Now(), Ran: uint16(len(r.Items))}
	if b.chills {
		b.chills, d.Ran, d.Reason, r.Items = false, 0, wire.ReasonCold, nil
	}
	for i := range r.Items {
		if f := b.fronts.find(r.instances[i]); f != nil {
			f.output(r.Items[i].Request)
		}
	}
	if u := b.uplink(b.core.Obeyed()); u != nil {
		_ = u.link.Send(d.Append(nil))
	}
}

// perform does what the core says. Caller holds mu.
func (b *fakeBackend) perform() {
	for i := range b.effects {
		e := &b.effects[i]
		u := b.uplink(e.Link)
		switch e.Kind {
		case standby.Fence:
			b.granted[e.Reign] = true
			b.queued = slices.DeleteFunc(b.queued, func(r *fakeRun) bool {
				r.dropped = r.dropped || !r.begun && !e.Keep
				return r.dropped
			})
			for _, r := range b.queued {
				m := wire.Running{Epoch: r.Epoch, Batch: r.Batch.Batch, Pool: r.Pool, Device: r.Device, Until: r.Until}
				for i, it := range r.Items {
					m.Items = append(m.Items, wire.RunningItem{Instance: r.instances[i], Request: it.Request})
				}
				if u != nil {
					_ = u.link.Send(m.Append(nil))
				}
			}
		case standby.Tell:
			if u != nil {
				_ = u.link.Send(e.Promised.Append(nil))
			}
		}
	}
	b.effects = b.effects[:0]
}

func (b *fakeBackend) uplink(number standby.Link) *uplink {
	for _, u := range b.place {
		if u.link != nil && u.number == number {
			return u
		}
	}
	return nil
}

func (b *fakeBackend) ended(u *uplink) {
	b.core.Down(u.number, &b.effects)
	b.perform()
}

// obeys is the scheduler that it obeys; -1: none.
func (b *fakeBackend) obeys() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range b.place {
		if u.link != nil && u.number == b.core.Obeyed() {
			return u.index
		}
	}
	return -1
}

func (b *fakeBackend) deaf() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refuses
}

func (f *fakeFronts) find(instance uint64) *fakeFrontend {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of[instance]
}

// fakeFrontend sends requests to the scheduler that leads, and all that are open again when another one does.
type fakeFrontend struct {
	grouped
	name     string
	instance uint64
	core     *standby.Frontend
	known    []map[string]wire.ModelID // by scheduler
	ready    []map[string]bool
	open     map[wire.RequestID]*fakeRequest
	last     wire.RequestID
	leads    []wire.Lead // what was said, of all
}

// sentAt is a reign over a link.
type sentAt struct {
	link  standby.Link
	reign wire.Epoch
}

type fakeRequest struct {
	at       sentAt
	model    string
	deadline mono.Time
	sent     int
	ran      int // batches that began with it
	outputs  int
	reason   wire.Reason // of its answer
	answered bool
}

func newFronts() *fakeFronts { return &fakeFronts{of: map[uint64]*fakeFrontend{}} }

func (w *world) frontend(fronts *fakeFronts, name string, schedulers ...string) *fakeFrontend {
	f := &fakeFrontend{name: name, instance: rand.Uint64(), core: standby.NewFrontend(len(schedulers)), open: map[wire.RequestID]*fakeRequest{}, last: wire.RequestID(rand.Uint64() >> 8)}
	for range schedulers {
		f.known = append(f.known, nil)
	}
	fronts.mu.Lock()
	fronts.of[f.instance] = f
	fronts.mu.Unlock()
	f.join(w, name, wire.RoleFrontend, f, schedulers...)
	return f
}

func (f *fakeFrontend) introduce(_ *uplink, l transport.Link) {
	transport.SendDoc(l, wire.DocFrontend, catalog.FrontendInfo{Name: f.name, Instance: f.instance, Address: "inproc:" + f.name})
}

func (f *fakeFrontend) document(u *uplink, l transport.Link, t wire.DocType, payload []byte) error {
	switch t {
	case wire.DocAdmitted:
		a, err := catalog.DecodeAdmitted(payload)
		if err != nil || a.Error != "" {
			return err
		}
		u.admitted(l)
		f.known[u.index] = map[string]wire.ModelID{}
		f.core.Up(u.index, u.number)
		f.sendOpen()
	case wire.DocChanges:
		ch, err := catalog.DecodeChanges(payload)
		if err != nil {
			return err
		}
		for _, m := range ch.Models {
			f.known[u.index][m.Spec.Name] = m.ID
		}
		f.sendOpen() // what waited for the model
	}
	return nil
}

func (f *fakeFrontend) frame(u *uplink, _ transport.Link, m transport.Frame) {
	switch m.Kind {
	case wire.KindLead:
		var lead wire.Lead
		if err := lead.Decode(m.Body); err != nil {
			f.t.Error(err)
		}
		f.leads = append(f.leads, lead)
		f.core.Lead(u.index, u.number, lead)
		f.sendOpen()
	case wire.KindAnswer:
		var a wire.Answer
		if err := a.Decode(m.Body); err != nil {
			f.t.Error(err)
		}
		if r := f.open[a.Request]; r != nil && !r.answered && f.core.Follows(u.index, u.number) {
			r.answered, r.reason = true, a.Reason
		}
	}
}

func (f *fakeFrontend) ended(u *uplink) {
	f.known[u.index] = nil
	f.core.Down(u.index, u.number)
	f.sendOpen()
}

// sendOpen sends whoever leads now all that is open and that it has not got. Caller holds mu.
func (f *fakeFrontend) sendOpen() {
	for id, r := range f.open {
		if !r.answered {
			f.send(id, r)
		}
	}
}

func (f *fakeFrontend) send(id wire.RequestID, r *fakeRequest) {
	i, reign, ok := f.core.Leader()
	if !ok {
		return
	}
	model, ok := f.known[i][r.model]
	if at := (sentAt{f.place[i].number, reign}); !ok || r.at == at {
		return
	} else {
		r.at = at
	}
	r.sent++
	m := wire.Submit{Request: id, Model: model, Arrival: mono.Now(), Deadline: r.deadline}
	_ = f.place[i].link.Send(m.Append(nil))
}

// ask sends a request to whoever leads, now or later.
func (f *fakeFrontend) ask(model string, budget mono.Dur) wire.RequestID {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	r := &fakeRequest{model: model, deadline: mono.Now().Add(budget)}
	f.open[f.last] = r
	f.send(f.last, r)
	return f.last
}

func (f *fakeFrontend) runs(id wire.RequestID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.open[id]; r != nil {
		r.ran++
	}
}

func (f *fakeFrontend) output(id wire.RequestID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.open[id]; r != nil {
		if r.outputs++; !r.answered {
			r.answered = true
		}
	}
}

// knows reports whether a scheduler has told it of a model.
func (f *fakeFrontend) knows(i int, model string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.known[i][model]
	return ok
}

// served checks that each request has an output, and waits for it.
func (f *fakeFrontend) served(what string) {
	f.t.Helper()
	until(f.t, what+": all are answered", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, r := range f.open {
			if !r.answered {
				return false
			}
		}
		return true
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, r := range f.open {
		if r.outputs == 0 {
			f.t.Errorf("%s: request %d is answered with %q; it was sent %d times", what, id, fmt.Sprint(r.reason), r.sent)
		}
	}
}
