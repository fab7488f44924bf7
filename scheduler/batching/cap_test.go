package batching

import (
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// capExample has l(b) = b + 10 s, SLO 100 s, on 9 GPUs: the pooled batch is 80 (l = 90 s, 8/9 of a request
// per second). 75 % of that is 2/3: a batch of 20 (l = 30 s).
func capExample(t *testing.T, set Setting) *Model {
	p, err := profile.Linear(mono.Second, 10*mono.Second, 1000)
	if err != nil {
		t.Fatal(err)
	}
	m := NewModel(Config{Profile: p, SLO: 100 * mono.Second, Share: OneGPU, QueueMax: 1000})
	m.SetSetting(set)
	m.offered(Offer{GPUs: 9, Share: 9 * OneGPU})
	return m
}

func TestCap(t *testing.T) {
	for _, c := range []struct {
		set  Setting
		size int // of the candidate and of the batch, of 50 requests that all fit
	}{{Setting{}, 50}, {Setting{Cap: 75}, 20}, {Setting{Haste: HasteAll, Cap: 75}, 20}, {Setting{Cap: 99}, 50}, {Setting{Cap: 1}, 1}} {
		m := capExample(t, c.set)
		for i := range 50 {
			m.Push(sec(1), sec(200), 0, uint32(i))
		}
		m.Update(sec(1), nil)
		if got := m.Candidate().Size; int(got) != c.size {
			t.Errorf("%v: a candidate of %d, want %d", c.set, got, c.size)
		}
		if c.size < 50 && m.Candidate().Exec != sec(1) {
			t.Errorf("%v: a candidate that cannot grow is to start at %v", c.set, m.Candidate().Exec)
		}
		batch, drops, _ := m.Take(sec(1), Offer{FreeAt: sec(1), GPUs: 9, Share: 9 * OneGPU}, nil, nil)
		if len(batch) != c.size || len(drops) > 0 || m.Len() != 50-c.size {
			t.Errorf("%v: a batch of %d, %d dropped, %d left; want a batch of %d", c.set, len(batch), len(drops), m.Len(), c.size)
		}
	}
}

// The cap is the smallest batch of that efficiency; a larger percentage allows no smaller batches; and
// without a cap the profile bounds them alone.
func TestCapIsLeast(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 2000 {
		p, err := profile.Linear(1+mono.Dur(r.Int64N(1000)), mono.Dur(r.Int64N(20_000)), 1+r.IntN(200))
		if err != nil {
			t.Fatal(err)
		}
		m := NewModel(Config{Profile: p, SLO: mono.Dur(1 + r.Int64N(100_000)), Share: OneGPU, QueueMax: 10})
		m.offered(Offer{GPUs: r.IntN(10), Share: OneGPU})
		whole := m.pooled
		if whole == 0 {
			whole = max(1, p.Largest(m.cfg.SLO, 0))
		}
		if m.most != p.MaxBatch() {
			t.Fatalf("round %d: without a cap at most %d, the profile has %d", round, m.most, p.MaxBatch())
		}
		before := 1
		for percent := uint8(1); percent <= capMost; percent++ {
			m.SetSetting(Setting{Cap: percent})
			b := m.most
			switch {
			case b < before, b > whole:
				t.Fatalf("round %d, cap %d: %d, before %d, the pooled batch is %d", round, percent, b, before, whole)
			case b < whole && !m.efficiency(b, whole, mono.Dur(percent)), b > 1 && m.efficiency(b-1, whole, mono.Dur(percent)):
				t.Fatalf("round %d, cap %d: %d is not the smallest batch of that efficiency", round, percent, b)
			case m.pooled > b, m.staggered > b, m.target > max(1, b):
				t.Fatalf("round %d, cap %d: aims beyond it, %+v", round, percent, m.aims)
			}
			before = b
		}
		m.SetSetting(Setting{})
		if m.most != p.MaxBatch() {
			t.Fatalf("round %d: a cap that was taken back still holds at %d", round, m.most)
		}
	}
}
