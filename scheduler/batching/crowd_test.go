package batching

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Where GPUs are crowded a batch is the largest that any front of the queue allows, with as few heads given up as it takes;
// where they are not, or the policy gives none up, it is what fits behind the head.
func TestCrowdTakesTheLargest(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	p, err := profile.Linear(2, 10, 12)
	if err != nil {
		t.Fatal(err)
	}
	shed := 0
	for range 2000 {
		now, free := mono.Time(100), mono.Time(90+r.IntN(30))
		deadlines := make([]mono.Time, 1+r.IntN(30))
		for i := range deadlines {
			deadlines[i] = mono.Time(135 + r.IntN(40))
		}
		slices.Sort(deadlines)
		policy, crowded := Policy(r.IntN(2)), r.IntN(3) > 0
		m := NewModel(Config{Profile: p, SLO: 80, QueueMax: 100, Policy: policy, Share: 64 * OneGPU})
		for i, d := range deadlines {
			m.Push(now, d, wire.PriorityDefault, uint32(i))
		}
		batch, drops, start := m.Take(now, Offer{FreeAt: free, GPUs: 64, Share: 64 * OneGPU, Crowded: crowded}, nil, nil)
		most, skip := 0, 0
		begin := max(now, free)
		for s := range deadlines {
			if n := min(p.Largest(deadlines[s].Sub(begin), 0), len(deadlines)-s); n > most {
				most, skip = n, s
			}
			if most > 0 && (!crowded || policy == PolicyHead) {
				break // the first that can be served at all
			}
		}
		if len(batch) != most || len(drops) != skip || most > 0 && (batch[0] != uint32(skip) || start != begin) {
			t.Fatalf("deadlines %v at %v: %d from %v on, %d given up; want %d, %d", deadlines, begin, len(batch), batch, len(drops), most, skip)
		}
		for _, d := range drops {
			if d.Reason == wire.ReasonShed {
				shed++
			}
		}
	}
	if shed == 0 {
		t.Error("nothing was given up")
	}
}
