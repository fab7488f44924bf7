package frontend

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Whatever the weights, at no instant is a version a whole request away from its part; beyond
// turnsMax it is the rounded weights that hold, and nobody with a weight has none.
func TestTurnsAreExact(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		most := rapid.SampledFrom([]uint32{1, 3, 10, 100, 1000, math.MaxUint32}).Draw(r, "most")
		given := rapid.SliceOfN(rapid.Uint32Range(0, most), 1, 12).Draw(r, "weights")
		weights, sum := rounded(given)
		turns := newTurns(given)
		if sum == 0 {
			if turns != nil {
				r.Fatalf("%v make turns", given)
			}
			return
		}
		total := uint64(0)
		for i, w := range given {
			if total += uint64(w); (w == 0) != (weights[i] == 0) {
				r.Fatalf("%d of %v is rounded to %d", w, given, weights[i])
			}
		}
		for i, w := range given { // rounding moves a part by little
			if d := float64(w)/float64(total) - float64(weights[i])/float64(sum); math.Abs(d) > float64(len(given)+1)/turnsMax {
				r.Fatalf("%v became %v", given, weights)
			}
		}
		had := make([]uint64, len(given))
		for n := uint64(1); n <= 2*sum; n++ {
			had[turns.next()]++
			for i := range had {
				if d := float64(had[i]) - float64(n)*float64(weights[i])/float64(sum); math.Abs(d) >= 1 {
					r.Fatalf("weights %v: after %d requests version %d had %d", given, n, i, had[i])
				}
			}
		}
	})
}

func TestTurnsOfManyVersions(t *testing.T) {
	given := make([]uint32, sharesMax)
	for i := range given {
		given[i] = uint32(i + 1)
	}
	turns := newTurns(given)
	had := make([]int, len(given))
	for range turns.table {
		had[turns.next()]++
	}
	weights, _ := rounded(given)
	for i, w := range weights {
		if had[i] != int(w) {
			t.Errorf("version %d had %d requests of a round, want %d", i, had[i], w)
		}
	}
}

// canary is a client with versions of "m" on device types of their own, so that each can
// come and go. It keeps the serial.
type canary struct {
	*Client
	l      *fakeLink
	serial uint64
}

func newCanary(t *testing.T, versions ...string) *canary {
	k := &canary{alone(t, nil), &fakeLink{}, 0}
	k.tell(k.l, wire.DocAdmitted, catalog.Admitted{Epoch: 1})
	var ch catalog.Changes
	for i, v := range versions {
		ch.Models = append(ch.Models, catalog.Served{ID: wire.ModelID(i), DeviceType: "e", SubCluster: v,
			Spec: catalog.ModelSpec{Name: "m", Version: v, SLO: mono.Second, Inputs: vector(1), Outputs: vector(1)}})
		ch.Pools = append(ch.Pools, catalog.PoolState{DeviceType: "e", SubCluster: v, GPUs: 1})
	}
	k.change(ch)
	return k
}

func (k *canary) change(ch catalog.Changes) {
	ch.Epoch, ch.Since, ch.Serial = 1, k.serial, k.serial+1
	k.serial++
	k.tell(k.l, wire.DocChanges, ch)
}

func (k *canary) share(shares ...catalog.Share) {
	k.change(catalog.Changes{Names: []catalog.Name{{Name: "m", Shares: shares}}})
}

func (k *canary) gpus(version string, n int) {
	k.change(catalog.Changes{Pools: []catalog.PoolState{{DeviceType: "e", SubCluster: version, GPUs: n}}})
}

// next counts whose the next n requests are.
func (k *canary) next(t *testing.T, n int) map[string]int {
	t.Helper()
	had := map[string]int{}
	for range n {
		e, err := k.Choose("m", "")
		if err != nil || !e.Ready {
			t.Fatalf("%+v, %v", e, err)
		}
		had[e.Spec.Version]++
	}
	return had
}

func (k *canary) want(t *testing.T, what string, n int, want map[string]int) {
	t.Helper()
	if got := k.next(t, n); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: of %d requests %v, want %v", what, n, got, want)
	}
}

// Shares hold from one request to the next; who is away gives its part to the others, and
// finds the count as it left it; other models' changes do not touch it.
func TestShares(t *testing.T) {
	k := newCanary(t, "2", "10", "1")
	if got := k.Versions("m"); fmt.Sprint(got) != "[1 2 10]" || len(k.Versions("nobody")) != 0 {
		t.Errorf("versions %v", got)
	}
	k.want(t, "no shares", 10, map[string]int{"10": 10})
	k.gpus("10", 0)
	k.want(t, "no shares, the highest without devices", 10, map[string]int{"2": 10})
	k.share(catalog.Share{Version: "1", Weight: 90}, catalog.Share{Version: "2", Weight: 10})
	k.want(t, "90 to 10", 1000, map[string]int{"1": 900, "2": 100})
	for i := range 100 { // one new catalogue after another
		k.change(catalog.Changes{Models: []catalog.Served{{ID: wire.ModelID(100 + i), DeviceType: "e", Spec: catalog.ModelSpec{Name: "other", Version: fmt.Sprint(i)}}}})
		k.next(t, 3)
	}
	k.want(t, "in the middle of a round that other models do not disturb", 700, map[string]int{"1": 630, "2": 70})
	k.gpus("1", 0)
	k.want(t, "the larger is away", 10, map[string]int{"2": 10})
	k.next(t, 3)
	k.gpus("1", 1)
	k.want(t, "and back", 100, map[string]int{"1": 90, "2": 10})
	k.gpus("10", 1)
	k.share(catalog.Share{Version: "1", Weight: 1}, catalog.Share{Version: "2", Weight: 2}, catalog.Share{Version: "10", Weight: 3})
	k.want(t, "three", 60, map[string]int{"1": 10, "2": 20, "10": 30})
	k.change(catalog.Changes{Gone: []wire.ModelID{1}})
	k.want(t, "one of three is gone: 1 to 2", 30, map[string]int{"1": 10, "2": 20})
	k.share(catalog.Share{Version: "7", Weight: 1}, catalog.Share{Version: "1"})
	k.want(t, "shares of none that is there", 10, map[string]int{"2": 10})
	k.share()
	k.want(t, "no shares again", 10, map[string]int{"2": 10})
	if e, err := k.Choose("m", "1"); err != nil || e.Spec.Version != "1" {
		t.Errorf("version 1 asked for: %+v, %v", e, err)
	}
}

// Model does not take a turn.
func TestModelTakesNoTurn(t *testing.T) {
	k := newCanary(t, "1", "2")
	k.share(catalog.Share{Version: "1", Weight: 1}, catalog.Share{Version: "2", Weight: 1})
	first, _ := k.Choose("m", "")
	for range 7 {
		if e, err := k.Model("m", ""); err != nil || e.Spec.Version != "2" {
			t.Fatalf("%+v, %v; of equal shares the higher version", e, err)
		}
	}
	if second, _ := k.Choose("m", ""); second.Spec.Version == first.Spec.Version {
		t.Errorf("twice version %s: Model took a turn", first.Spec.Version)
	}
}

// Many goroutines together get their shares, while the catalogue changes beside.
func TestSharesOfManyAtATime(t *testing.T) {
	k := newCanary(t, "1", "2")
	k.share(catalog.Share{Version: "1", Weight: 9}, catalog.Share{Version: "2", Weight: 1})
	const each, goroutines = 2000, 8
	var all sync.WaitGroup
	var mu sync.Mutex
	had := map[string]int{}
	for range goroutines {
		all.Go(func() {
			own := k.next(t, each)
			mu.Lock()
			defer mu.Unlock()
			for v, n := range own {
				had[v] += n
			}
		})
	}
	for i := range 50 {
		k.change(catalog.Changes{Models: []catalog.Served{{ID: wire.ModelID(100 + i), DeviceType: "e", Spec: catalog.ModelSpec{Name: "other", Version: fmt.Sprint(i)}}}})
	}
	all.Wait()
	if had["1"] != each*goroutines*9/10 || had["2"] != each*goroutines/10 {
		t.Errorf("%v of %d", had, each*goroutines)
	}
}

func TestChooseDoesNotAllocate(t *testing.T) {
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("instrumented builds allocate")
	}
	k := newCanary(t, "1", "2")
	k.share(catalog.Share{Version: "1", Weight: 9}, catalog.Share{Version: "2", Weight: 1})
	if n := testing.AllocsPerRun(1000, func() { _, _ = k.Choose("m", "") }); n != 0 {
		t.Errorf("a choice allocates %v times", n)
	}
	both := newHave(t, 2)
	for i := range 2 {
		both.tell(i, catalog.Served{ID: 1, DeviceType: "e", Spec: specOf("m", "1")}, catalog.Served{ID: 2, DeviceType: "e", Spec: specOf("m", "2")})
	}
	for _, version := range []string{"", "2"} {
		if n := testing.AllocsPerRun(1000, func() { _, _ = both.Choose("m", version) }); n != 0 {
			t.Errorf("a choice between two schedulers allocates %v times", n)
		}
	}
}

// share tells the client the shares of "echo".
func (c *cluster) share(t *testing.T, client *Client, serial uint64, shares ...catalog.Share) {
	c.mu.Lock()
	l := c.control
	c.mu.Unlock()
	transport.SendDoc(l, wire.DocChanges, catalog.Changes{Epoch: c.doc.Epoch, Since: serial, Serial: serial + 1, Names: []catalog.Name{{Name: "echo", Shares: shares}}})
	eventually(t, "the shares", func() bool { return client.Models().Serial == serial+1 })
}

// requests are the answered requests by version and outcome, as a scrape shows them.
func requests(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "symphony_requests_total" && m.GetCounter().GetValue() > 0 {
				out[label(m, "model")+"/"+label(m, "version")+" "+label(m, "outcome")] = m.GetCounter().GetValue()
			}
		}
	}
	return out
}

// label is one of a metric's labels.
func label[L interface {
	GetName() string
	GetValue() string
}](m interface{ GetLabel() []L }, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// Every request is answered by the version that its answer names, and the counters say the
// same: 10 %, then all, then back.
func TestCanary(t *testing.T) {
	c, registry := newCluster(t), prometheus.NewRegistry()
	ran := map[wire.ModelID]int{}
	c.onSubmit = func(c *cluster, _, data transport.Link, s wire.Submit) {
		c.mu.Lock()
		ran[s.Model]++
		c.mu.Unlock()
		c.serve(data, s)
	}
	client := c.dial(func(o *Options) { o.Metrics = registry })
	answered := map[string]int{}
	ask := func(n int) {
		t.Helper()
		for range n {
			r, err := client.Infer(context.Background(), echo(1))
			if err != nil {
				t.Fatal(err)
			}
			answered[r.Version]++
			r.Release()
		}
	}
	steps := []struct {
		shares []catalog.Share
		n, one int
	}{{nil, 7, 0}, {[]catalog.Share{{Version: "1", Weight: 10}, {Version: "2", Weight: 90}}, 105, 10},
		{[]catalog.Share{{Version: "1", Weight: 100}}, 20, 20}, {nil, 7, 0}}
	for i, step := range steps {
		before := answered["1"]
		if i > 0 {
			c.share(t, client, uint64(i), step.shares...)
		}
		ask(step.n)
		if d := answered["1"] - before - step.one; d < -1 || d > 1 {
			t.Errorf("step %d: version 1 answered %d of %d, want %d", i, answered["1"]-before, step.n, step.one)
		}
	}
	counted := requests(t, registry)
	c.mu.Lock()
	defer c.mu.Unlock()
	if counted["echo/1 ok"] != float64(answered["1"]) || counted["echo/2 ok"] != float64(answered["2"]) || len(counted) != 2 {
		t.Errorf("counted %v, answered %v", counted, answered)
	}
	if ran[0] != answered["1"] || ran[1] != answered["2"] { // their ids: testModels
		t.Errorf("ran %v, answered %v", ran, answered)
	}
}

// Series begin with a version's first request, stay while it may still be scraped, and go;
// a version that comes back in time goes on counting.
func TestSeriesOfWhatIsGone(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := newMetrics(alone(t, nil), registry)
	if err != nil {
		t.Fatal(err)
	}
	count := func(k *modelMetrics) { k.count(reasonError("a", wire.ReasonFull)) }
	one, two, silent := m.of("a", "1", mono.Second), m.of("a", "2", mono.Second), m.of("a", "3", mono.Second)
	count(one)
	count(two)
	if got := requests(t, registry); len(got) != 2 {
		t.Errorf("%v, want two versions and not the silent one", got)
	}
	again := m.of("a", "1", mono.Second) // of a model that follows under its id
	one.end()
	two.end()
	silent.end()
	m.sweep(mono.Now())
	back := m.of("a", "2", mono.Second)
	count(back)
	back.end()
	count(two) // what was under way
	if got := requests(t, registry); got["a/2 overloaded"] != 3 || got["a/1 overloaded"] != 1 {
		t.Errorf("%v, want 3 of version 2", got)
	}
	m.sweep(mono.Now().Add(seriesKept + mono.Second))
	count(two)
	count(silent)
	count(again)
	if got := requests(t, registry); len(got) != 1 || got["a/1 overloaded"] != 2 || len(m.models) != 1 {
		t.Errorf("%v and %d versions are left, want version 1", got, len(m.models))
	}
	families, _ := registry.Gather()
	for _, f := range families {
		for _, k := range f.GetMetric() {
			if v := label(k, "version"); v != "" && v != "1" {
				t.Errorf("%s has a series of version %s", f.GetName(), v)
			}
		}
	}
}

// While many ask, shares change, versions come and go: nobody is refused, and the counters
// have each answer under the version that it names.
func TestCanaryUnderLoad(t *testing.T) {
	c, registry := newCluster(t), prometheus.NewRegistry()
	client := c.dial(func(o *Options) { o.Metrics = registry })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex
	answered := map[string]float64{}
	for range 4 {
		all.Go(func() {
			own := map[string]float64{}
			for ctx.Err() == nil {
				q := echo(1)
				q.Timeout = time.Minute // on a machine that is busy nobody is late
				r, err := client.Infer(context.Background(), q)
				if err != nil {
					t.Error(err)
					break
				}
				own["echo/"+r.Version+" ok"]++
				r.Release()
			}
			mu.Lock()
			defer mu.Unlock()
			for k, n := range own {
				answered[k] += n
			}
		})
	}
	serial := uint64(1)
	change := func(ch catalog.Changes) {
		c.mu.Lock()
		l := c.control
		c.mu.Unlock()
		ch.Epoch, ch.Since, ch.Serial = c.doc.Epoch, serial, serial+1
		serial++
		transport.SendDoc(l, wire.DocChanges, ch)
		eventually(t, "the change", func() bool { return client.Models().Serial == serial })
	}
	share := func(one, two uint32) catalog.Changes {
		return catalog.Changes{Names: []catalog.Name{{Name: "echo", Shares: []catalog.Share{{Version: "1", Weight: one}, {Version: "2", Weight: two}}}}}
	}
	two := catalog.Served{ID: 1, DeviceType: "gpus-1", Spec: c.doc.Entries[1].Spec}
	for range 30 {
		for _, ch := range []catalog.Changes{share(90, 10), share(0, 100), {Gone: []wire.ModelID{1}}, {Models: []catalog.Served{two}}, share(50, 50),
			{Models: []catalog.Served{{ID: 1, DeviceType: "none", Spec: two.Spec}}}, {Models: []catalog.Served{two}}} {
			change(ch)
			time.Sleep(time.Millisecond)
		}
	}
	cancel()
	all.Wait()
	counted := requests(t, registry)
	if fmt.Sprint(counted) != fmt.Sprint(answered) || answered["echo/1 ok"] == 0 || answered["echo/2 ok"] == 0 {
		t.Errorf("counted %v, answered %v", counted, answered)
	}
}
