package members

import (
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// with are files of a digest under what a backend has.
func with(d catalog.Stocked, text string) catalog.Stocked {
	d.Digest, d.Bytes = catalog.DigestOf([]byte(text)), int64(len(text))
	return d
}

// Two backends that got different files for one version: the second one's are not used, with both
// digests in the reason; once nobody has the first ones any more, others hold. What lies in a
// backend's own folder is not looked at.
func TestOtherFiles(t *testing.T) {
	p := newPlant(t, limits())
	a, b := p.host("a", 1, catalog.Nowhere), p.host("b", 1, catalog.Nowhere)
	p.ids = 100
	load := func(gpu string) {
		if _, answered := p.order(catalog.Order{Kind: catalog.OrderLoad, GPU: gpu, Sources: []catalog.Source{{Name: "m", Version: "1", URL: "u"}}}); answered {
			t.Fatal("a load is answered before it is done")
		}
	}
	load("a/gpu/0")
	p.stock(a, with(has(0, spec("m"), 0), "first"))
	load("b/gpu/0")
	p.stock(b, with(has(0, spec("m"), 0), "second"))
	err := p.answers[102]
	if p.answers[101] != nil || err == nil || !strings.Contains(err.Error(), string(catalog.DigestOf([]byte("first")))) || !strings.Contains(err.Error(), "symphony model update m/1 --source") {
		t.Errorf("answered with %v and %v", p.answers[101], err)
	}
	states := map[string]catalog.Stocked{}
	for _, g := range p.c.Facts(0, 100).GPUs {
		for _, s := range g.Stock {
			states[g.Name] = s
		}
	}
	if s := states["a/gpu/0"]; s.State != catalog.StateReady || s.Digest != catalog.DigestOf([]byte("first")) || s.Bytes != 5 {
		t.Errorf("facts of the first: %+v", s)
	}
	if s := states["b/gpu/0"]; s.State != catalog.StateFailed || s.Digest != catalog.DigestOf([]byte("second")) {
		t.Errorf("facts of the second: %+v", s)
	}
	own := with(has(0, spec("m"), 0), "own")
	own.Local = true
	p.stock(b, own)
	if it := p.c.byUnit["b/gpu/0"].stock().byKey["m/1"]; it.bad != "" {
		t.Errorf("the backend's own: %s", it.bad)
	}
	p.stock(b, has(0, spec("m")))
	p.stock(a, has(0, spec("m")))
	load("b/gpu/0")
	p.stock(b, with(has(0, spec("m"), 0), "second"))
	if err := p.answers[103]; err != nil {
		t.Errorf("nobody has the first any more: %v", err)
	}
}

// The files that a backend brings with its introduction are told, and others are held against them;
// a device that comes back is to have the same.
func TestFilesThatAreBrought(t *testing.T) {
	p := newPlant(t, limits())
	first := catalog.DigestOf([]byte("first"))
	slo := int64(7)
	info := p.info("a", 1, 1, on("gpu", 1, spec("m")))
	pool := &info.Pools[0]
	pool.Runtime, pool.In, pool.Ordered, pool.Brought = true, []string{""}, []int{0}, []catalog.Files{{Digest: first, Bytes: 5, Own: &catalog.Settings{SLO: &slo}}}
	p.must(p.join(info))
	f := p.c.Facts(0, 100)
	if s := f.GPUs[0].Stock[0]; s.Digest != first || s.Bytes != 5 || s.Own == nil || s.Local {
		t.Errorf("facts %+v", s)
	}
	b := p.host("b", 1, catalog.Nowhere)
	p.ids = 100
	order := catalog.Order{Kind: catalog.OrderLoad, GPU: "b/gpu/0", Sources: []catalog.Source{{Name: "m", Version: "1", URL: "u"}}}
	p.order(order)
	p.stock(b, with(has(0, spec("m"), 0), "second"))
	if err := p.answers[101]; err == nil || !strings.Contains(err.Error(), string(first)) {
		t.Errorf("answered with %v", err)
	}
	p.leave(b)
	p.keeps = nil
	p.host("b", 1, catalog.Nowhere)
	found := false
	for _, k := range p.keeps {
		for _, s := range k.Load {
			found = found || s.Key() == "m/1" && s.Digest == first
		}
	}
	if !found {
		t.Errorf("it is told to keep %+v", p.keeps)
	}
}

// Settings that orders have put in force are told with what is routed, also those that changed
// nothing.
func TestSettingsInForceAreTold(t *testing.T) {
	p := newPlant(t, limits())
	p.host("a", 1, "", spec("m"), spec("n"))
	before := p.c.FactsSerial()
	same := int64(50 * mono.Millisecond)
	p.do(catalog.Order{Kind: catalog.OrderSet, Keys: []string{"m/1"}, Settings: &catalog.Settings{SLO: &same}})
	for _, since := range []uint64{0, before} {
		got := map[string]*catalog.Settings{}
		for _, m := range p.c.Facts(since, 100).Models {
			got[m.Key] = m.Set
		}
		if s := got["m/1"]; s == nil || s.SLO == nil || *s.SLO != same || s.MaxBatch != nil || got["n/1"] != nil {
			t.Errorf("since %d: %v", since, got)
		}
	}
}
