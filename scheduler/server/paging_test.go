package server

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const pageOf = 1 << 20

// vault is a backend whose devices hold some of its models, by orders: one that cannot be carried out is a
// failure of the test. What is guarded by peer.mu.
type vault struct {
	*peer
	memory  catalog.Paged
	held    []map[wire.ModelID]wire.Generation // by device
	each    int                                // pages of a model
	coming  []int                              // loads that are not done, by device
	loader  []mono.Time
	loads   []wire.Load
	refuse  wire.Reason              // the next batch
	lax     bool                     // orders of another life of a GPU cross those of this one: what does not fit is refused, as by a backend
	missing map[wire.Generation]bool // that it refused a batch for
	ran     map[ranOn]bool
	odd     []map[wire.Generation]bool // by device: weights whose model has no id
	wrong   int
}

// ranOn is whose weights a batch has run with.
type ranOn struct {
	device     uint32
	generation wire.Generation
}

func pagedSpec(name string, pages int) catalog.ModelSpec {
	s := spec(name)
	s.WeightsBytes, s.LoadTime = int64(pages)*pageOf, 3*mono.Millisecond
	return s
}

func newVault(t *testing.T, n *loopback.Network, devices, pages int) *vault {
	v := &vault{peer: newPeer(t), each: 1, coming: make([]int, devices), memory: catalog.Paged{Page: pageOf, Pages: pages}, loader: make([]mono.Time, devices), missing: map[wire.Generation]bool{}, ran: map[ranOn]bool{}}
	v.first = map[wire.BatchID]bool{}
	for range devices {
		v.odd = append(v.odd, map[wire.Generation]bool{})
		v.held = append(v.held, map[wire.ModelID]wire.Generation{})
	}
	v.onLoad, v.onBatch = v.load, v.batch
	v.dial(n, wire.RoleBackend, "b")
	return v
}

// join registers it; held are told of.
func (v *vault) join(t *testing.T, name string, held [][]catalog.HeldModel, specs ...catalog.ModelSpec) {
	t.Helper()
	list, d, err := catalog.EncodeModels(specs)
	if err != nil {
		t.Fatal(err)
	}
	v.mu.Lock()
	v.lists[d] = list
	v.mu.Unlock()
	transport.SendDoc(v.link, wire.DocBackend, catalog.BackendInfo{Name: name, Instance: rand.Uint64(), Configured: time.Now().UnixNano(),
		Pools: []catalog.Pool{{DeviceType: "paged", Devices: len(v.held), Models: d, Paged: &v.memory, Held: held}}})
	v.wait("admission", func() bool { return v.admitted != nil })
}

// load carries an order out. Caller holds mu.
func (v *vault) load(m *wire.Load) {
	v.loads = append(v.loads, *m)
	held := v.held[m.Device]
	if m.Op == wire.OpUnload && m.Model == wire.ModelNone {
		if !v.odd[m.Device][m.Generation] {
			v.t.Errorf("an order to forget %+v, where there is %v", m, v.odd[m.Device])
		}
		delete(v.odd[m.Device], m.Generation)
		return
	}
	if m.Op == wire.OpUnload {
		if v.lax && held[m.Model] != m.Generation {
			return
		}
		if held[m.Model] != m.Generation && !v.missing[m.Generation] {
			v.t.Errorf("an order to unload %+v, where %v are held", m, held)
		}
		delete(held, m.Model)
		return
	}
	report := wire.Loaded{Epoch: m.Epoch, Load: m.Load, Op: m.Op, Model: m.Model, Device: m.Device, Pool: m.Pool, Generation: m.Generation, Start: mono.Now(), End: mono.Now()}
	if v.lax {
		delete(held, m.Model) // the newer order holds
	}
	full := (len(held)+1)*v.each > v.memory.Pages
	if v.lax && full {
		report.Reason, report.Free = wire.ReasonMemory, v.free(m.Device)
		_ = v.link.Send(report.Append(nil))
		return
	}
	if full || held[m.Model] != 0 || m.Generation == 0 || m.Epoch == 0 {
		v.t.Errorf("an order to load %+v, where %v are held", m, held)
	}
	held[m.Model] = m.Generation
	start := max(mono.Now(), v.loader[m.Device])
	end := start.Add(3 * mono.Millisecond)
	v.loader[m.Device] = end
	report.Start, report.End = start, end
	v.coming[m.Device]++
	time.AfterFunc(end.Sub(mono.Now()).Std(), func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.coming[m.Device]--
		report.Free = v.free(m.Device)
		_ = v.link.Send(report.Append(nil))
	})
}

// free are a device's pages that nothing takes, loads that wait included. Caller holds mu.
func (v *vault) free(device uint32) uint32 {
	return uint32(v.memory.Pages - v.each*(len(v.held[device])-min(len(v.held[device]), v.coming[device])))
}

// batch looks at an order. Caller holds mu.
func (v *vault) batch(m *wire.Batch) {
	if m.Latest == mono.Never || m.Latest < m.Exec {
		v.t.Errorf("a batch that starts at %v at the latest at %v", m.Exec, m.Latest)
	}
	if v.held[m.Device][m.Model] != m.Generation && v.refuse == 0 {
		v.wrong++
	}
	v.mute = false
	if at := (ranOn{m.Device, m.Generation}); v.refuse == 0 && !v.ran[at] {
		v.ran[at], v.first[m.Batch] = true, true
	}
	if v.refuse != 0 {
		d := wire.Done{Epoch: m.Epoch, Batch: m.Batch, Start: mono.Now(), End: mono.Now(), Reason: v.refuse}
		v.refuse, v.mute = 0, true // by peer.Receive, which looks next
		if d.Reason == wire.ReasonCold {
			delete(v.held[m.Device], m.Model)
			v.missing[m.Generation] = true
		}
		_ = v.link.Send(d.Append(nil))
	}
}

// has reports whether a frontend got all answers, and counts who was served.
func (p *peer) has(n int) (served int, all bool) {
	for _, a := range p.answers {
		if n--; len(a) == 1 && a[0] == wire.ReasonNone {
			served++
		}
	}
	return served, n <= 0
}

func models(n int) (all []catalog.ModelSpec) {
	for i := range n {
		all = append(all, pagedSpec(fmt.Sprintf("m%d", i), 1))
	}
	return all
}

// More models than the GPUs have room for: all are in the catalogue and served, loads come and go, and the counters
// tell of it.
func TestPagedPool(t *testing.T) {
	registry := prometheus.NewRegistry()
	s, n := newServer(t, func(c *Config) { c.Metrics = registry })
	v := newVault(t, n, 2, 3)
	v.join(t, "b", nil, models(12)...)
	f := frontendPeer(t, n)
	f.wait("the models", func() bool { return len(f.doc.Entries) == 12 && f.doc.Entries[0].Ready })
	const requests = 200
	r := rand.New(rand.NewPCG(1, 2))
	for i := range requests {
		f.mu.Lock()
		e := f.doc.Entries[r.IntN(12)]
		f.mu.Unlock()
		f.submit(wire.RequestID(i+1), e.ID, 80*mono.Millisecond)
		time.Sleep(3 * time.Millisecond)
	}
	served := 0
	both := func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		dropped := len(f.answers)
		n, _ := v.has(0)
		served = n
		return n+dropped >= requests
	}
	v.wait("the answers", both)
	v.mu.Lock()
	defer v.mu.Unlock()
	if served < requests/2 || len(v.loads) < 20 || v.wrong > 0 {
		t.Errorf("served %d of %d, %d loads, %d batches without their weights; dropped %v", served, requests, len(v.loads), v.wrong, f.answers)
	}
	s.mu.Lock()
	stats := *s.pools[0].engine.Stats().Paging
	s.mu.Unlock()
	if stats.Cold < 10 || stats.Unloads < 5 || stats.Pages != 6 {
		t.Errorf("%+v of %d loads and unloads", stats, len(v.loads))
	}
	got, byModel := executed(t, registry, served), map[string]float64{}
	for i := range 12 {
		for _, start := range []string{"cold", "warm"} {
			byModel[start] += got[fmt.Sprintf("symphony_paged_model_requests_total m%d %s 1", i, start)]
		}
	}
	if byModel["cold"] != got["symphony_paged_requests_total cold"] || byModel["warm"] != got["symphony_paged_requests_total warm"] {
		t.Errorf("by models %v, of all %v", byModel, got)
	}
	if got["symphony_loads_total cold"] != float64(stats.Cold) || got["symphony_loads_total copy"] != float64(stats.Copies) || got["symphony_evictions_total room"] != float64(stats.Evicted[residency.Room]) || got["symphony_loader_busy_seconds_total"] == 0 ||
		got["symphony_pages free"]+got["symphony_pages used"] != 6 || got["symphony_pages missing"] != 0 || got["symphony_paged_requests_total cold"] < 10 || got["symphony_paged_requests_total cold"]+got["symphony_paged_requests_total warm"] != float64(served) {
		t.Errorf("%v of %+v, %d served", got, stats, served)
	}
	t.Logf("served %d of %d; %+v", served, requests, stats)
}

// gathered are the values of all series, by name and labels, but for the pool's.
func gathered(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	got := map[string]float64{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, fam := range families {
		for _, m := range fam.Metric {
			name := fam.GetName()
			for _, l := range m.Label {
				if l.GetName() != "pool" {
					name += " " + l.GetValue()
				}
			}
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return got
}

// executed is gathered once so many requests have been counted: an answer overtakes the report of its batch.
func executed(t *testing.T, registry *prometheus.Registry, n int) (got map[string]float64) {
	t.Helper()
	for range 5000 {
		if got = gathered(t, registry); got["symphony_paged_requests_total cold"]+got["symphony_paged_requests_total warm"] >= float64(n) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return got
}

// Which backends cannot join, and why.
func TestPagedBackendsThatAreRefused(t *testing.T) {
	_, n := newServer(t, nil)
	first := newVault(t, n, 1, 3)
	first.join(t, "b", nil, models(2)...)
	if first.admitted.Error != "" {
		t.Fatal(first.admitted.Error)
	}
	refused := func(want string, v *vault, specs ...catalog.ModelSpec) {
		t.Helper()
		v.join(t, "c", nil, specs...)
		if !strings.Contains(v.admitted.Error, want) {
			t.Errorf("refused with %q, want %q", v.admitted.Error, want)
		}
	}
	large := newVault(t, n, 1, 3)
	refused("its weights are 4194304 bytes, 4 pages, and a device of pool paged has 3", large, pagedSpec("large", 4))
	other := newVault(t, n, 1, 3)
	other.memory.Page *= 2
	refused("pages are of 2097152 bytes on c, and of 1048576 on b", other, models(2)...)
	p := dial(t, n, wire.RoleBackend, "r")
	p.introduce(catalog.BackendInfo{Name: "r", Instance: 5, Configured: 1}, "paged", 1, models(2))
	p.wait("refusal", func() bool { return p.admitted != nil })
	if !strings.Contains(p.admitted.Error, "r has all models on its devices, and b loads them on demand") {
		t.Errorf("refused with %q", p.admitted.Error)
	}
}

// A scheduler that begins with a backend that holds weights uses them, and goes on behind their generations.
func TestHeldWeightsAreUsed(t *testing.T) {
	registry := prometheus.NewRegistry()
	srv, n := newServer(t, func(c *Config) { c.Metrics = registry })
	srv.Hasten() // else all would start at the last moment, which a busy machine misses
	v := newVault(t, n, 1, 3)
	held := func(b *catalog.Bound) {
		v.held[0][b.IDs[1]], v.held[0][b.IDs[2]] = 70, 9
		v.ran[ranOn{0, 70}], v.ran[ranOn{0, 9}] = true, true
	}
	v.odd[0][11], v.odd[0][12] = true, true
	v.onBound = func(b *catalog.Bound) { held(b) }
	v.join(t, "b", [][]catalog.HeldModel{{{Key: "m2/1", Generation: 9}, {Key: "who/1", Generation: 11}, {Key: "m1/1", Generation: 70}, {Key: "what/3", Generation: 12}}}, models(3)...)
	f := frontendPeer(t, n)
	f.wait("the models", func() bool { return len(f.doc.Entries) == 3 && f.doc.Entries[0].Ready })
	for i, name := range []string{"m1", "m2", "m0"} {
		f.mu.Lock()
		id := f.entry(name).ID
		f.mu.Unlock()
		f.submit(wire.RequestID(i+1), id, 10*mono.Second)
		v.wait("an answer", func() bool { return len(v.answers[wire.RequestID(i+1)]) == 1 })
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.loads) != 3 || v.loads[0].Model != wire.ModelNone || v.loads[1].Model != wire.ModelNone || v.loads[2].Generation <= 70 || v.wrong > 0 || len(v.odd[0]) > 0 {
		t.Errorf("loads %+v, %d batches without their weights; want what has no id ordered away, then one beyond generation 70", v.loads, v.wrong)
	}
	if got := executed(t, registry, 3); got["symphony_paged_requests_total cold"] != 1 || got["symphony_paged_requests_total warm"] != 2 {
		t.Errorf("%v cold and %v warm, want 1 and 2: what is adopted is warm", got["symphony_paged_requests_total cold"], got["symphony_paged_requests_total warm"])
	}
}

// A batch that its backend refuses whole is queued again, and its model loaded again if that is why.
func TestRefusedBatchesAreQueuedAgain(t *testing.T) {
	for _, reason := range []wire.Reason{wire.ReasonLate, wire.ReasonCold} {
		t.Run(reason.String(), func(t *testing.T) {
			registry := prometheus.NewRegistry()
			s, n := newServer(t, func(c *Config) { c.Metrics = registry })
			s.Hasten()
			v := newVault(t, n, 1, 3)
			v.join(t, "b", nil, models(1)...)
			f := frontendPeer(t, n)
			f.wait("the model", func() bool { return len(f.doc.Entries) == 1 && f.doc.Entries[0].Ready })
			f.submit(1, f.doc.Entries[0].ID, 10*mono.Second)
			v.wait("the first answer, and its load's report", func() bool { return len(v.answers[1]) == 1 && v.coming[0] == 0 })
			v.mu.Lock()
			v.refuse = reason
			v.mu.Unlock()
			f.submit(2, f.doc.Entries[0].ID, 10*mono.Second)
			v.wait("the answer", func() bool { return len(v.answers[2]) == 1 })
			v.mu.Lock()
			defer v.mu.Unlock()
			loads := 0
			for _, l := range v.loads {
				if l.Op == wire.OpLoad {
					loads++
				}
			}
			if want := map[wire.Reason]int{wire.ReasonLate: 1, wire.ReasonCold: 2}[reason]; len(v.batches) != 3 || loads != want || v.wrong > 0 {
				t.Errorf("%d batches, %d of them without their weights, %d loads, want 3, 0 and %d", len(v.batches), v.wrong, loads, want)
			}
			cold := map[wire.Reason]float64{wire.ReasonLate: 1, wire.ReasonCold: 2}[reason]
			got := executed(t, registry, 2)
			if got["symphony_paged_model_requests_total m0 cold 1"] != cold || got["symphony_paged_model_requests_total m0 warm 1"] != 2-cold {
				t.Errorf("%v, want %v cold of 2 requests", got, cold)
			}
		})
	}
}

// A device that the scheduler suspects and then uses again begins with what it still has: also what came meanwhile.
func TestSuspectedPagedDevice(t *testing.T) {
	s, n := newServer(t, nil)
	s.Hasten()
	v := newVault(t, n, 1, 3)
	v.lax = true
	v.join(t, "b", nil, models(3)...)
	f := frontendPeer(t, n)
	f.wait("the models", func() bool { return len(f.doc.Entries) == 3 && f.doc.Entries[0].Ready })
	suspect := func(is bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for conn := range s.backends {
			if err := s.cluster.Suspect(conn, 0, 0, is, "the test says so", &s.effects); err != nil {
				t.Error(err)
			}
		}
		s.carryOut(&s.effects)
	}
	id := wire.RequestID(0)
	for round := range 30 {
		f.mu.Lock()
		e := f.doc.Entries[round%3]
		f.mu.Unlock()
		id++
		f.submit(id, e.ID, 400*mono.Millisecond)
		time.Sleep(time.Duration(round%5) * time.Millisecond)
		suspect(true)
		suspect(false)
		id++
		f.submit(id, e.ID, 400*mono.Millisecond)
		v.wait("an answer", func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return len(v.answers[id])+len(f.answers[id]) > 0
		})
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if served, _ := v.has(0); served < 30 {
		t.Errorf("served %d of %d; dropped %v", served, id, f.answers)
	}
}

// Devices of a type that had all models, and are replaced by paged ones: the pool begins anew.
func TestPoolThatBecomesPaged(t *testing.T) {
	s, n := newServer(t, nil)
	p := dial(t, n, wire.RoleBackend, "r")
	p.introduce(catalog.BackendInfo{Name: "r", Instance: 5, Configured: 1}, "paged", 1, models(2))
	p.wait("admission", func() bool { return p.admitted != nil })
	f := frontendPeer(t, n)
	f.wait("the models", func() bool { return len(f.doc.Entries) == 2 && f.doc.Entries[0].Ready })
	p.link.Close(nil)
	f.wait("their end", func() bool { return !f.doc.Entries[0].Ready })
	v := newVault(t, n, 1, 1)
	v.join(t, "b", nil, models(2)...)
	if v.admitted.Error != "" {
		t.Fatal(v.admitted.Error)
	}
	f.wait("the models again", func() bool { return len(f.doc.Entries) == 2 && f.doc.Entries[0].Ready })
	for i := range 2 {
		f.submit(wire.RequestID(i+1), f.doc.Entries[i].ID, 500*mono.Millisecond)
		v.wait("an answer", func() bool { return len(v.answers[wire.RequestID(i+1)]) == 1 })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pools[0].paged == nil {
		t.Error("the pool is not paged")
	}
}

// What a backend tells of devices that it has not, or again, takes no memory.
func TestPagingKnowsItsDevices(t *testing.T) {
	var p paging
	p.introduce(&catalog.BackendInfo{Pools: []catalog.Pool{{Devices: 3}, {Devices: 2, Paged: &catalog.Paged{Page: pageOf, Pages: 9}}}})
	for _, pool := range []int{-1, 0, 1, 2} {
		for _, device := range []int{-1, 0, 1, 2} {
			at := spot{uint32(pool), uint32(device)}
			p.replace(pool, device, []catalog.HeldModel{{Key: "a/1", Generation: 1}})
			for gen := range wire.Generation(5) {
				p.reported(&wire.Loaded{Pool: at.pool, Device: at.device, Model: 7, Generation: gen + 1})
			}
			p.reported(&wire.Loaded{Pool: at.pool, Device: at.device, Model: 8, Generation: 9, Reason: wire.ReasonLate})
			p.loses(spot{9, 9}, 7, 1)
			want := 0
			if pool == 1 && (device == 0 || device == 1) {
				want = 2 // what it held, and the last that came of the other
			}
			if got := p.seat(at, &pagedSeat{}, func(string) (wire.ModelID, bool) { return 3, true }); len(got) != want {
				t.Errorf("pool %d, device %d: %v, want %d of them", pool, device, got, want)
			}
		}
	}
	if len(p.devices) != 2 {
		t.Errorf("%d devices are known, want 2", len(p.devices))
	}
}

// A device that is out of service holds nothing, whatever is still on its way; one that is back holds what comes from then on.
func TestReportsOfDevicesThatAreOut(t *testing.T) {
	var p paging
	p.introduce(&catalog.BackendInfo{Pools: []catalog.Pool{{Devices: 1, Paged: &catalog.Paged{Page: pageOf, Pages: 9}}}})
	none := func(string) (wire.ModelID, bool) { return 0, false }
	p.seat(spot{}, &pagedSeat{}, none)
	came := &wire.Loaded{Model: 7, Generation: 5}
	if p.reported(came) == nil {
		t.Error("the engine is not told of a load")
	}
	p.service(0, 0, false)
	if p.reported(came) != nil {
		t.Error("the engine is told of a load on a device that lost it")
	}
	p.service(0, 0, true)
	p.service(3, 9, true)
	if got := p.seat(spot{}, &pagedSeat{}, none); len(got) != 0 {
		t.Errorf("a device that comes back holds %v", got)
	}
	p.reported(came)
	p.replace(0, 0, append([]catalog.HeldModel{{Key: "x/1", Generation: 3}, {Key: "y/1", Generation: 4}}, catalog.HeldModel{Key: "z/1", Generation: 6}))
	if got := p.seat(spot{}, &pagedSeat{}, none); len(got) != 3 || got[1].Model != wire.ModelNone || got[1].Generation != 4 {
		t.Errorf("held is %v", got)
	}
	p.loses(spot{}, wire.ModelNone, 4)
	if got := p.seat(spot{}, &pagedSeat{}, none); len(got) != 2 {
		t.Errorf("held is %v", got)
	}
	p.loses(spot{}, wire.ModelNone, 0)
	if got := p.seat(spot{}, &pagedSeat{}, none); len(got) != 0 {
		t.Errorf("held is %v", got)
	}
}

// A pool that nobody is in may get pages of another size: its engine begins anew, for models have other numbers of them.
func TestPoolWhosePagesChange(t *testing.T) {
	s, n := newServer(t, nil)
	s.Hasten() // else all would start at the last moment, which a busy machine misses
	engineOf := func() any { s.mu.Lock(); defer s.mu.Unlock(); return s.pools[0].engine }
	f := frontendPeer(t, n)
	before := any(nil)
	for i, size := range []int64{pageOf, pageOf / 2} {
		v := newVault(t, n, 1, 4)
		v.memory.Page, v.each = size, 2*(i+1)
		v.join(t, "b", nil, pagedSpec("m0", 2), pagedSpec("m1", 2))
		if v.admitted.Error != "" {
			t.Fatal(v.admitted.Error)
		}
		f.wait("the models", func() bool { return len(f.doc.Entries) == 2 && f.doc.Entries[0].Ready })
		for k := range 2 {
			id := wire.RequestID(2*i + k + 1)
			f.submit(id, f.doc.Entries[k].ID, 10*mono.Second)
			v.wait("an answer", func() bool { return len(v.answers[id]) == 1 })
		}
		unloads := 0
		v.mu.Lock()
		for _, l := range v.loads {
			if l.Op == wire.OpUnload {
				unloads++
			}
		}
		v.mu.Unlock()
		if unloads != i { // two models of 2 pages fit into 4; of 4 pages one does
			t.Errorf("pages of %d: %d unloads, want %d", size, unloads, i)
		}
		if engineOf() == before {
			t.Error("the engine of before serves pages of another size")
		}
		before = engineOf()
		v.link.Close(nil)
		f.wait("their end", func() bool { return !f.doc.Entries[0].Ready })
	}
}
