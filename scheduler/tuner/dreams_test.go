package tuner

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

func newDreams() *dreams { return &dreams{rng: rand.New(rand.NewPCG(1, 12))} }

// watched shows dreams the arrivals of a flow for some seconds.
func (d *dreams) watched(r *rand.Rand, id wire.ModelID, from, seconds, rate, shape float64) mono.Time {
	for at := from; at < from+seconds; at += gamma(r, shape) / rate {
		d.observe(mono.Time(mono.FromSeconds(at)), id, mono.Dur(id+1)*mono.Millisecond)
	}
	return mono.Time(mono.FromSeconds(from + seconds))
}

// moments are the mean and the deviation of gaps, in seconds.
func moments(gaps []gap) (mean, deviation float64) {
	for _, g := range gaps {
		mean += g.span.Seconds() / float64(len(gaps))
	}
	for _, g := range gaps {
		deviation += math.Pow(g.span.Seconds()-mean, 2) / float64(len(gaps))
	}
	return mean, math.Sqrt(deviation)
}

// Dreams have each model's rate and burstiness, as far as its last gaps show them.
func TestDreamsAreLikeWhatCame(t *testing.T) {
	flows := []struct{ rate, shape float64 }{{1000, 1}, {300, 0.2}, {200, 0.05}, {100, 20}}
	d, r := newDreams(), rand.New(rand.NewPCG(2, 12))
	now := mono.Time(0)
	for id, f := range flows {
		now = d.watched(r, wire.ModelID(id), 100, 20, f.rate, f.shape)
	}
	const offset = 7 * mono.Second
	dreamt := d.append(nil, now, d.now.Add(offset), dreamMost, 100_000)
	last, gaps := make([]mono.Time, len(flows)), make([][]gap, len(flows))
	before := mono.Past
	for _, a := range dreamt {
		if a.at < before || a.budget != mono.Dur(a.model+1)*mono.Millisecond {
			t.Fatalf("%+v after %v", a, before)
		}
		before = a.at
		if last[a.model] != 0 {
			gaps[a.model] = append(gaps[a.model], gap{span: a.at.Sub(last[a.model])})
		}
		last[a.model] = a.at
	}
	if len(dreamt) != 100_000 || dreamt[0].at < mono.Time(offset) {
		t.Fatalf("%d arrivals, the first at %v", len(dreamt), dreamt[0].at)
	}
	for id, f := range flows {
		mean, deviation := moments(d.models[id].gaps)
		gotMean, gotDeviation := moments(gaps[id])
		sigma := deviation / math.Sqrt(float64(len(gaps[id])))
		if math.Abs(gotMean-mean) > 4*sigma || math.Abs(gotDeviation-deviation) > 0.1*deviation {
			t.Errorf("rate %v, shape %v: %d dreamt gaps of %.3f +- %.3f ms, the last %d were %.3f +- %.3f",
				f.rate, f.shape, len(gaps[id]), 1e3*gotMean, 1e3*gotDeviation, len(d.models[id].gaps), 1e3*mean, 1e3*deviation)
		}
	}
}

// count is how many dreams are of a model.
func count(dreamt []arrival, id wire.ModelID) (n int) {
	for _, a := range dreamt {
		if a.model == id {
			n++
		}
	}
	return n
}

// A model of which nothing comes any more is not dreamt of, and is again when it comes back; one whose
// requests are rare is no silent one.
func TestSilentModels(t *testing.T) {
	d, r := newDreams(), rand.New(rand.NewPCG(3, 12))
	d.watched(r, 0, 100, 60, 100, 1)
	d.watched(r, 1, 100, 10, 100, 1) // silent from 110 s on
	now := d.watched(r, 2, 100, 60, 0.2, 1)
	if d.append(nil, now, 0, dreamMost, 2000); d.next.Has(1) || !d.next.Has(0) || !d.next.Has(2) {
		t.Errorf("dreams of models 0 to 2: %v, %v, %v; 1 is silent", d.next.Has(0), d.next.Has(1), d.next.Has(2))
	}
	if n := count(d.append(nil, now, 0, dreamMost, 2000), 1); n > 0 {
		t.Errorf("%d dreams of a silent model", n)
	}
	d.watched(r, 1, 170, 1, 100, 1)
	if n := count(d.append(nil, mono.Time(171*mono.Second), 0, dreamMost, 2000), 1); n < 500 {
		t.Errorf("%d of 2000 dreams of one of two models that is back", n)
	}
}

// A removed model vanishes; what was missed makes no gap; too few gaps tell nothing.
func TestDreamsForget(t *testing.T) {
	d, r := newDreams(), rand.New(rand.NewPCG(4, 12))
	for id := range wire.ModelID(3) {
		d.watched(r, id, 100, 1, 100, 1)
	}
	d.remove(1)
	d.remove(77)
	now := mono.Time(101 * mono.Second)
	if n := count(d.append(nil, now, 0, dreamMost, 1000), 1); n > 0 {
		t.Errorf("%d dreams of a removed model", n)
	}
	d.missed()
	at := len(d.models[0].gaps)
	if d.observe(now.Add(500*mono.Second), 0, 0); len(d.models[0].gaps) != at {
		t.Errorf("what was missed made a gap of %v", d.models[0].gaps[at].span)
	}
	d.forget()
	if got := d.append(nil, now, 0, dreamMost, 10); len(got) != 0 {
		t.Errorf("%d dreams of nothing", len(got))
	}
	d.missed()
	for i := range gapsLeast + 2 {
		if d.next.Has(0) != (i > gapsLeast) {
			t.Errorf("after %d arrivals dreams: %v", i, d.next.Has(0))
		}
		d.observe(now.Add(mono.Dur(500+i)*mono.Second), 0, 0)
	}
}

// Of one burst nobody can tell how often it comes: there are no dreams before there were some more.
func TestNoDreamsOfOneBurst(t *testing.T) {
	d, now := newDreams(), mono.Time(mono.Second)
	burst := func() {
		for range 60 {
			now = now.Add(mono.Millisecond)
			d.observe(now, 0, 0)
		}
	}
	now = now.Add(10 * mono.Second)
	d.observe(now, 0, 0)
	for i := 1; i <= burstsLeast; i++ {
		now = now.Add(10 * mono.Second)
		if burst(); d.next.Has(0) != (i == burstsLeast) {
			t.Errorf("after %d bursts dreams: %v", i, d.next.Has(0))
		}
	}
	// Once the longest gap is another one, what was known is known no more.
	now = now.Add(200 * mono.Second)
	d.observe(now, 0, 0)
	for range 100 { // it is asked now and then
		d.append(nil, now, 0, dreamMost, 100)
	}
	if d.next.Has(0) {
		t.Error("it dreams on after a silence that was longer than all")
	}
}

// Memory is bounded, however many arrivals there are.
func TestDreamsAreBounded(t *testing.T) {
	d, r := newDreams(), rand.New(rand.NewPCG(5, 12))
	now := d.watched(r, 0, 100, 100, 100, 1)
	d.append(nil, now, 0, dreamMost, 10_000)
	if n := cap(d.models[0].gaps); n > 2*gapsMax || d.next.Len() > 1 {
		t.Errorf("room for %d gaps, %d models to come", n, d.next.Len())
	}
}
