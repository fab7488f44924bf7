package batching

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Where GPUs are crowded a batch is the largest that any front of the queue allows, with as few heads given up as it takes, and where they are
// full, if half of the largest one fit anyway and no more are given up than it grows by; where they are not, or the policy gives none up, it is what fits behind the head.
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
		policy, crowded, full := Policy(r.IntN(2)), r.IntN(2) > 0, r.IntN(2) > 0
		m := NewModel(Config{Profile: p, SLO: 80, QueueMax: 100, Policy: policy, Share: 64 * OneGPU})
		for i, d := range deadlines {
			m.Push(now, d, wire.PriorityDefault, uint32(i))
		}
		batch, drops, start := m.Take(now, Offer{FreeAt: free, GPUs: 64, Share: 64 * OneGPU, Crowded: crowded, Full: full}, nil, nil)
		most, skip, alone, first := 0, 0, 0, 0
		begin := max(now, free)
		for s := range deadlines {
			if n := min(p.Largest(deadlines[s].Sub(begin), 0), len(deadlines)-s); n > most {
				most, skip = n, s
			}
			if most > 0 && alone == 0 {
				alone, first = most, s // the first that can be served at all
			}
		}
		if alone > 0 && (policy == PolicyHead || !crowded && !(full && 2*alone >= 12 && skip-first <= most-alone)) {
			most, skip = alone, first
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

// Under Shed the heads that stand in the way of what waits, or of what can gather within the SLO, are given up when the candidate is formed:
// as few as it takes, and none for less. The policy head forbids it.
func TestShedBeforeThereIsAGPU(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	p, err := profile.Linear(2, 10, 12)
	if err != nil {
		t.Fatal(err)
	}
	shed, bounded := 0, 0
	for range 2000 {
		now := mono.Time(100)
		deadlines := make([]mono.Time, 1+r.IntN(30))
		for i := range deadlines {
			deadlines[i] = mono.Time(112 + r.IntN(40))
		}
		slices.Sort(deadlines)
		m := NewModel(Config{Profile: p, SLO: 80, QueueMax: 100, Policy: Policy(r.IntN(2)), Share: 64 * OneGPU})
		m.SetSetting(Setting{Shed: r.IntN(4) > 0})
		if m.gathered = min(m.gathered, 4+r.IntN(9)); m.gathered < 12 {
			bounded++
		}
		for i, d := range deadlines {
			m.Push(now, d, wire.PriorityDefault, uint32(i))
		}
		drops := m.Update(now, nil)
		fits := func(s int) int { return min(p.Largest(deadlines[s].Sub(now), 0), len(deadlines)-s) }
		most, skip := 0, 0
		for s := range deadlines {
			if n := min(fits(s), max(1, m.gathered)); n > most && (most == 0 || m.setting.Shed && m.cfg.Policy == PolicyTarget) {
				most, skip = n, s
			}
		}
		if k := m.Candidate(); int(k.Size) != fits(skip) || len(drops) != skip {
			t.Fatalf("deadlines %v at %v, %d gather, %v, policy %v: %d given up for %d; want %d for %d", deadlines, now, m.gathered, m.setting, m.cfg.Policy, len(drops), k.Size, skip, fits(skip))
		}
		for _, d := range drops {
			if d.Reason == wire.ReasonShed {
				shed++
			}
		}
	}
	if shed == 0 || bounded == 0 {
		t.Errorf("%d were given up, %d times fewer gathered than a batch takes", shed, bounded)
	}
}

// What gathers and runs within the SLO: l(b) + b/rate; without a rate l(b) in half of it.
func TestGathers(t *testing.T) {
	p, err := profile.Linear(2*mono.Millisecond, 10*mono.Millisecond, 64)
	if err != nil {
		t.Fatal(err)
	}
	m := NewModel(Config{Profile: p, SLO: 100 * mono.Millisecond, QueueMax: 100, Share: OneGPU})
	m.SetSetting(Setting{Shed: true})
	if m.gathered != 20 { // (50 - 10) / 2
		t.Errorf("without a rate %d", m.gathered)
	}
	for at := range 200 { // a request each millisecond, in batches of ten
		now := mono.Time(at) * mono.Time(mono.Millisecond)
		m.Push(now, now.Add(m.cfg.SLO), wire.PriorityDefault, 0)
		if at%10 == 9 {
			m.Take(now, Offer{FreeAt: now, GPUs: 1, Share: OneGPU}, nil, nil)
		}
	}
	if m.gathered != 30 { // (100 - 10) / (2 + 1)
		t.Errorf("with a request each millisecond %d", m.gathered)
	}
}

// Under Shed and Frontrun a candidate waits for its frontrun, but not where there is one GPU.
func TestShedOnOneGPU(t *testing.T) {
	for gpus, waits := range map[int]bool{1: false, 2: true} {
		m := steep(t, func(k *Config) { k.Policy, k.Window = PolicyTarget, WindowDeferred })
		m.SetSetting(Setting{Shed: true, Frontrun: true})
		m.offered(Offer{GPUs: gpus, Share: OneGPU})
		m.opening.lead, m.company = 2*mono.Second, 0
		push(t, m, 100, 100)
		m.Update(sec(50), nil)
		k := m.Candidate()
		frontrun := m.deadline(0).Add(-m.cfg.Profile.Latency(int(k.Size) + 1))
		if got := k.Exec == frontrun; got != waits {
			t.Errorf("on %d GPUs: starts %v, its frontrun is %v", gpus, k.Exec, frontrun)
		}
	}
}
