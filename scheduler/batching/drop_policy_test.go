package batching

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// takeAt10 takes a batch at 10 s under the target policy. Nothing has arrived
// before, so the target is the staggered batch: 4 on 3 GPUs (l = 9 s).
func takeAt10(t *testing.T, change func(*Config), deadlines ...float64) (batch []uint32, drops []Dropped) {
	t.Helper()
	m := example(t, func(c *Config) {
		c.Policy = PolicyTarget
		if change != nil {
			change(c)
		}
	})
	push(t, m, deadlines...)
	batch, drops, _ = m.Take(sec(10), Offer{FreeAt: sec(10)}, nil, nil)
	return batch, drops
}

// Overload: heads are given up until a batch of the target fits.
func TestShedsUnderOverload(t *testing.T) {
	old := []float64{16.5, 16.6, 16.7, 16.8, 17, 17.5, 18.5, 19, 19.5, 20}
	batch, drops := takeAt10(t, nil, old...)
	if len(batch) != 3 || len(drops) != 6 {
		t.Fatalf("batch of %d, %d dropped, want 3 and 6", len(batch), len(drops))
	}
	for _, d := range drops {
		if d.Reason != wire.ReasonShed {
			t.Fatalf("dropped for %v, want shed", d.Reason)
		}
	}
	batch, drops = takeAt10(t, func(c *Config) { c.Policy = PolicyHead }, old...)
	if len(batch) != 1 || len(drops) != 0 {
		t.Fatalf("head: batch of %d, %d dropped, want 1 and 0", len(batch), len(drops))
	}
}

// After a pause all that came in it is due soon, and GPUs have nothing to do. What waits in TestShedsUnderOverload runs on seven of them, each taking what
// fits behind the first that is left: 16.5, 16.6, 16.7, 16.8, 17 to 17.5, 18.5 to 19.5, 20. On six, without the first.
func TestIdleGPUsTakeWhatWaits(t *testing.T) {
	old := []float64{16.5, 16.6, 16.7, 16.8, 17, 17.5, 18.5, 19, 19.5, 20}
	for _, c := range []struct {
		name         string
		offer        Offer
		batch, drops int
	}{
		{"no others", Offer{}, 3, 6},
		{"four", Offer{Others: 4}, 1, 2},
		{"five", Offer{Others: 5}, 1, 1},
		{"six", Offer{Others: 6}, 1, 0},
		{"half of twelve", Offer{Others: 12, GPUs: 14, Share: 7 * OneGPU}, 1, 0},
		{"half of eleven", Offer{Others: 11, GPUs: 14, Share: 7 * OneGPU}, 1, 1},
	} {
		m := example(t, func(k *Config) { k.Policy = PolicyTarget })
		push(t, m, old...)
		c.offer.FreeAt = sec(10)
		batch, drops, _ := m.Take(sec(10), c.offer, nil, nil)
		if len(batch) != c.batch || len(drops) != c.drops {
			t.Errorf("%s: batch of %d, %d dropped, want %d and %d", c.name, len(batch), len(drops), c.batch, c.drops)
		}
	}
}

// One request more than fit: to give up the head would not make the batch
// larger.
func TestKeepsAHeadWhoseLossGainsNothing(t *testing.T) {
	for _, c := range []struct {
		deadlines []float64
		batch     int
	}{{[]float64{16.5}, 1}, {[]float64{16.5, 30}, 1}, {[]float64{17.5, 30, 30}, 2}, {[]float64{19.5, 30, 30, 30, 30}, 4}} {
		batch, drops := takeAt10(t, nil, c.deadlines...)
		if len(batch) != c.batch || len(drops) != 0 {
			t.Errorf("%v: batch of %d, %d dropped, want %d and 0", c.deadlines, len(batch), len(drops), c.batch)
		}
	}
}

// A slot that takes more than 3 SLOs to pay for its heads is not bought, unless
// the batch falls far short of the target. l(b) = 2b + 5 pays back after
// 2*7*19/5 = 53 s at b = 7.
func TestSheddingPaysBack(t *testing.T) {
	for _, c := range []struct {
		name      string
		b, target int
		slo       float64
		want      bool
	}{
		{"pays within 3 SLOs of 20 s", 7, 8, 20, true},
		{"does not within 3 of 15 s, and 7/19 is 97 % of 8/21", 7, 8, 15, false},
		{"far short: 2/9 is 58 % of 8/21", 2, 8, 1, true},
		{"at the target", 7, 7, 20, false},
	} {
		m := steep(t, func(k *Config) { k.Policy, k.SLO = PolicyTarget, sec(c.slo).Sub(0) })
		push(t, m, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100)
		m.target = c.target
		if got := m.shedding(c.b); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// steep is the example with l(b) = 2b + 5.
func steep(t *testing.T, change func(*Config)) *Model {
	t.Helper()
	p, err := profile.Linear(2*mono.Second, 5*mono.Second, 8)
	if err != nil {
		t.Fatal(err)
	}
	return example(t, func(c *Config) { c.Profile = p; change(c) })
}

// Where batches do not pay, none is waited for: l(b) nearly proportional to b.
func TestWeakBatchingShedsNothing(t *testing.T) {
	p, err := profile.Linear(3*mono.Second, mono.Second/50, 8)
	if err != nil {
		t.Fatal(err)
	}
	batch, drops := takeAt10(t, func(c *Config) { c.Profile, c.SLO = p, 16*mono.Second }, 13.5, 13.6, 13.7, 20, 20, 20, 20, 20)
	if len(batch) != 1 || len(drops) != 0 {
		t.Fatalf("batch of %d, %d dropped, want 1 and 0", len(batch), len(drops))
	}
}

func TestParsePolicy(t *testing.T) {
	for name, want := range map[string]Policy{"": PolicyTarget, "target": PolicyTarget, "head": PolicyHead} {
		if got, err := ParsePolicy(name); err != nil || got != want {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
	if _, err := ParsePolicy("tail"); err == nil {
		t.Error("an unknown policy was taken")
	}
}
