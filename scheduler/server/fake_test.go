package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

func newServer(t *testing.T, change func(*Config)) (*Server, *loopback.Network) {
	t.Helper()
	cfg := Config{Listen: []string{"inproc:scheduler"}, Network: loopback.New(),
		Margin: 250 * mono.Microsecond, DelayMin: 100 * mono.Microsecond, DelayMax: 5 * mono.Millisecond, Lead: mono.Millisecond}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, cfg.Network.(*loopback.Network)
}

// peer is a fake frontend or backend: it keeps what the scheduler tells it.
type peer struct {
	t    *testing.T
	link transport.Link

	mu       sync.Mutex
	admitted *catalog.Admitted
	doc      catalog.Catalogue // of a frontend, from its changes
	pools    map[string]int
	subs     map[wire.ModelID]string   // sub-clusters
	bound    map[wire.ModelID]bool     // of a backend
	lists    map[catalog.Digest][]byte // what it has, by what it may be asked for
	members  []wire.Member
	answers  map[wire.RequestID][]wire.Reason // backends "serve" with ReasonNone
	batches  []wire.Batch
	closed   error
	mute     bool             // a backend that takes orders and does nothing
	deaf     map[uint32]bool  // devices of it that do nothing
	silent   bool             // a backend that does not tell its labels
	wants    []catalog.Digest // labels that it was asked for
	parts    int              // of the catalogue
	gate     chan struct{}    // what comes waits for its end; nil: does not
	onKeep   func(*catalog.Keep)
	onBound  func(*catalog.Bound)
	onBatch  func(*wire.Batch)
	onLoad   func(*wire.Load)
	first    map[wire.BatchID]bool // batches that are the first with their weights
	outcomes map[uint64]catalog.Outcome
	facts    *factsSeen     // of a controller
	asked    wire.RequestID // by runs
}

func (p *peer) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

func (p *peer) Closed(_ transport.Link, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = err
}

func (p *peer) Receive(l transport.Link, f transport.Frame) {
	if p.gate != nil {
		<-p.gate
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch f.Kind {
	case wire.KindDoc:
		if err := p.onDoc(l, f); err != nil {
			p.t.Error(err)
		}
	case wire.KindMember:
		var m wire.Member
		_ = m.Decode(f.Body)
		p.members = append(p.members, m)
	case wire.KindAnswer:
		var m wire.Answer
		_ = m.Decode(f.Body)
		p.answers[m.Request] = append(p.answers[m.Request], m.Reason)
	case wire.KindLoad:
		var m wire.Load
		if err := m.Decode(f.Body, l.Shift()); err != nil {
			p.t.Error(err)
		}
		p.onLoad(&m)
	case wire.KindBatch:
		var m wire.Batch
		if err := m.Decode(f.Body, l.Shift()); err != nil {
			p.t.Error(err)
		}
		if !p.bound[m.Model] {
			p.t.Errorf("an order of model %d, of which the backend has not heard", m.Model)
		}
		if p.onBatch != nil {
			p.onBatch(&m)
		}
		p.batches = append(p.batches, m)
		if !p.mute && !p.deaf[uint32(m.Device)] {
			go p.run(l, m)
		}
	}
}

// onDoc takes a document. Caller holds mu.
func (p *peer) onDoc(l transport.Link, f transport.Frame) error {
	var d wire.Doc
	err := d.Decode(f.Body)
	switch d.Type {
	case wire.DocAdmitted:
		p.admitted = &catalog.Admitted{}
		err = json.Unmarshal(f.Payload, p.admitted)
	case wire.DocChanges:
		var ch catalog.Changes
		err = json.Unmarshal(f.Payload, &ch)
		p.change(&ch)
		p.parts++
	case wire.DocBound:
		var b catalog.Bound
		err = json.Unmarshal(f.Payload, &b)
		for _, id := range b.IDs {
			p.bound[id] = true
		}
		if p.onBound != nil {
			p.onBound(&b)
		}
	case wire.DocKeep:
		var k catalog.Keep
		err = json.Unmarshal(f.Payload, &k)
		p.onKeep(&k)
	case wire.DocOutcome:
		var o catalog.Outcome
		err = json.Unmarshal(f.Payload, &o)
		if _, twice := p.outcomes[o.ID]; twice {
			p.t.Errorf("order %d has two outcomes", o.ID)
		}
		p.outcomes[o.ID] = o
	case wire.DocFacts:
		var d catalog.Facts
		if d, err = catalog.DecodeFacts(f.Payload); err == nil {
			p.facts.apply(&d)
		}
	case wire.DocWant:
		var w catalog.Want
		err = json.Unmarshal(f.Payload, &w)
		if b, t := p.lists[w.Models], wire.DocModels; w.Models != "" {
			p.hands(l, t, b)
		} else if p.wants = append(p.wants, w.Labels); !p.silent && p.lists[w.Labels] != nil {
			b = p.lists[w.Labels]
			p.hands(l, wire.DocLabels, b)
		}
	case wire.DocLabels:
		p.lists[catalog.DigestOf(f.Payload)] = slices.Clone(f.Payload)
	}
	return err
}

// hands sends a document that it was asked for; its link may have ended meanwhile.
func (p *peer) hands(l transport.Link, t wire.DocType, doc []byte) {
	if err := l.SendPayload((&wire.Doc{Type: t}).Append(nil, len(doc)), doc, nil); errors.Is(err, transport.ErrFull) {
		p.t.Errorf("%d bytes that it was asked for: %v", len(doc), err)
	}
}

// run executes a batch: it takes until the planned end.
func (p *peer) run(l transport.Link, m wire.Batch) {
	time.Sleep(m.Until.Sub(mono.Now()).Std())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed != nil {
		return
	}
	for _, it := range m.Items {
		p.answers[it.Request] = append(p.answers[it.Request], wire.ReasonNone)
	}
	now := mono.Now()
	d := wire.Done{Epoch: m.Epoch, Batch: m.Batch, Ready: m.Exec, Start: m.Exec, End: now, Ran: uint16(len(m.Items))}
	if p.first[m.Batch] {
		d.Flags = wire.OutputCold
	}
	_ = l.Send(d.Append(nil))
}

func dial(t *testing.T, n *loopback.Network, role wire.Role, name string) *peer {
	t.Helper()
	p := newPeer(t)
	p.dial(n, role, name)
	return p
}

func newPeer(t *testing.T) *peer {
	return &peer{t: t, answers: map[wire.RequestID][]wire.Reason{}, pools: map[string]int{}, subs: map[wire.ModelID]string{}, bound: map[wire.ModelID]bool{}, lists: map[catalog.Digest][]byte{},
		outcomes: map[uint64]catalog.Outcome{}, facts: newFactsSeen()}
}

func (p *peer) dial(n *loopback.Network, role wire.Role, name string) {
	p.t.Helper()
	l, err := n.Dial(context.Background(), "inproc:scheduler", transport.Options{Hello: wire.Hello{Role: role, Name: name}}, p)
	if err != nil {
		p.t.Fatal(err)
	}
	p.link = l
	p.t.Cleanup(func() { l.Close(nil) })
}

func frontendPeer(t *testing.T, n *loopback.Network) *peer {
	t.Helper()
	p := dial(t, n, wire.RoleFrontend, "f")
	transport.SendDoc(p.link, wire.DocFrontend, catalog.FrontendInfo{Name: "f", Instance: rand.Uint64(), Address: fmt.Sprintf("inproc:f%d", rand.Uint64())})
	p.wait("admission", func() bool { return p.admitted != nil })
	return p
}

func spec(name string) catalog.ModelSpec {
	return catalog.ModelSpec{Name: name, Version: "1", SLO: 100 * mono.Millisecond, MaxBatch: 16, Profile: catalog.Profile{Alpha: mono.Millisecond, Beta: 4 * mono.Millisecond}}
}

func backendPeer(t *testing.T, n *loopback.Network, name string, devices int, models ...string) *peer {
	t.Helper()
	p := dial(t, n, wire.RoleBackend, name)
	p.register(name, devices, models...)
	p.wait("admission", func() bool { return p.admitted != nil })
	return p
}

func (p *peer) register(name string, devices int, models ...string) {
	var specs []catalog.ModelSpec
	for _, m := range models {
		specs = append(specs, spec(m))
	}
	p.introduce(catalog.BackendInfo{Name: name, Instance: rand.Uint64(), Configured: time.Now().UnixNano()}, "emulated", devices, specs)
}

// introduce registers a backend with one pool.
func (p *peer) introduce(info catalog.BackendInfo, deviceType string, devices int, specs []catalog.ModelSpec) {
	p.t.Helper()
	list, d, err := catalog.EncodeModels(specs)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.lists[d] = list
	p.mu.Unlock()
	info.Pools = []catalog.Pool{{DeviceType: deviceType, Devices: devices, Models: d}}
	transport.SendDoc(p.link, wire.DocBackend, info)
}

// change applies what became of the catalogue. Caller holds mu.
func (p *peer) change(ch *catalog.Changes) {
	gone := func(e catalog.Entry) bool {
		return slices.Contains(ch.Gone, e.ID) || slices.ContainsFunc(ch.Models, func(m catalog.Served) bool { return m.ID == e.ID })
	}
	p.doc.Entries = slices.DeleteFunc(p.doc.Entries, gone)
	for _, m := range ch.Models {
		p.subs[m.ID] = m.SubCluster
		p.doc.Entries = append(p.doc.Entries, catalog.Entry{ID: m.ID, DeviceType: m.DeviceType, Spec: m.Spec})
	}
	for _, s := range ch.Pools {
		p.pools[s.DeviceType+"/"+s.SubCluster] = s.GPUs
	}
	for i := range p.doc.Entries {
		e := &p.doc.Entries[i]
		e.GPUs = p.pools[e.DeviceType+"/"+p.subs[e.ID]]
		e.Ready = e.GPUs > 0
	}
}

// wait waits for something that the peer hears.
func (p *peer) wait(what string, ok func() bool) {
	p.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		p.mu.Lock()
		done := ok()
		p.mu.Unlock()
		if done {
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.t.Fatalf("%s: not within 20 s; link closed: %v", what, p.closed)
}

// entry finds a model in the peer's catalogue. Caller holds mu.
func (p *peer) entry(name string) catalog.Entry {
	for _, e := range p.doc.Entries {
		if e.Spec.Name == name {
			return e
		}
	}
	return catalog.Entry{}
}

// entryNow is entry for callers that do not hold mu.
func (p *peer) entryNow(name string) catalog.Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.entry(name)
}

func (p *peer) submit(id wire.RequestID, model wire.ModelID, budget mono.Dur) {
	now := mono.Now()
	m := wire.Submit{Request: id, Model: model, Arrival: now, Deadline: now.Add(budget)}
	if err := p.link.Send(m.Append(nil)); err != nil {
		p.t.Error(fmt.Errorf("submit: %w", err))
	}
}
