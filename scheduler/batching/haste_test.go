package batching

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// hasty is the model of TestFirstRequestWaitsForCompany with a setting: l(b) = 2b + 5 s, SLO 24 s,
// company 3/8 s. Until it has learnt anything the whole deferral starts it at its frontrun.
func hasty(t *testing.T, s Setting, change func(*Config)) *Model {
	m := steep(t, func(c *Config) {
		c.Window, c.SLO = WindowDeferred, 24*mono.Second
		if change != nil {
			change(c)
		}
	})
	m.SetSetting(s)
	return m
}

// A batch is due at open - (open - since)*haste/16: since is when the queue became non-empty, also
// when more requests come.
func TestHaste(t *testing.T) {
	const open = 1 + 24 - 9 // since 1 s, l(2) is 9 s
	for haste := range uint8(HasteAll + 1) {
		m := hasty(t, Setting{Haste: haste, Alone: true}, nil)
		m.Push(sec(1), sec(25), 0, 0)
		m.Update(sec(1), nil)
		want := sec(open - float64(open-1)*float64(haste)/HasteAll)
		c := m.Candidate()
		if off := c.Exec.Sub(want); off < 0 || off > HasteAll {
			t.Errorf("haste %d: exec %v, want %v", haste, c.Exec, want)
		}
		if off := sec(open).Sub(c.Deferred()); off < 0 || off >= holdUnit {
			t.Errorf("haste %d: held until %v, deferral alone starts at %v", haste, c.Deferred(), sec(open))
		}
		m.Push(sec(2), sec(26), 0, 1)
		m.Update(sec(2), nil)
		const later = 1 + 24 - 11 // l(3)
		want = max(sec(2), sec(later-float64(later-1)*float64(haste)/HasteAll))
		if off := m.Candidate().Exec.Sub(want); off < 0 || off > HasteAll {
			t.Errorf("haste %d, a second request: exec %v, want %v", haste, m.Candidate().Exec, want)
		}
	}
}

// A first request waits for company unless the setting says alone, and never beyond its frontrun.
func TestHasteAndCompany(t *testing.T) {
	for _, c := range []struct {
		set      Setting
		deadline float64
		want     float64
	}{
		{Setting{Haste: HasteAll}, 25, 1 + 3.0/8},
		{Setting{Haste: HasteAll, Alone: true}, 25, 1},
		{Setting{Haste: HasteAll}, 10.125, 1.125}, // frontrun
		{Setting{Haste: HasteAll, Frontrun: true}, 25, 1 + 3.0/8},
		{Setting{Haste: HasteAll, Frontrun: true, Alone: true}, 25, 1},
	} {
		m := hasty(t, c.set, nil)
		m.Push(sec(1), sec(c.deadline), 0, 0)
		m.Update(sec(1), nil)
		if got := m.Candidate().Exec; got != sec(c.want) {
			t.Errorf("%v: exec %v, want %v", c.set, got, sec(c.want))
		}
	}
}

// Frontrun ignores what was learnt, and does not run a ripe batch at once.
func TestFrontrunForgoesTheLearnt(t *testing.T) {
	m := hasty(t, Setting{Frontrun: true}, nil)
	m.opening.lead = 10 * mono.Second
	push(t, m, 24)
	m.Update(0, nil)
	if c := m.Candidate(); c.Exec != sec(24-9) || c.Hold != 0 {
		t.Errorf("candidate %+v, want exec at the frontrun, 15 s, and no hold", c)
	}
	m.offered(Offer{GPUs: 7}) // pooled is 8: TestRipeBatchRunsAtOnce
	push(t, m, 24, 24, 24, 24, 24, 24)
	m.Update(0, nil)
	if c := m.Candidate(); !m.ripe(7) || c.Exec != sec(24-21) {
		t.Errorf("a ripe batch: candidate %+v, want exec at the frontrun, 3 s", c)
	}
	m.SetSetting(Setting{Frontrun: true, Haste: HasteAll, Alone: true})
	m.Update(0, nil)
	if c := m.Candidate(); c.Exec != 0 || c.Deferred() != sec(3) {
		t.Errorf("the same without deferral: candidate %+v, want exec at once, held until 3 s", c)
	}
}

// drawn is a model that has learnt something, with requests in its queue, at an instant.
func drawn(t *testing.T, r *rand.Rand) (*Model, mono.Time) {
	m := hasty(t, Setting{}, func(c *Config) {
		c.Delay = Delay{Ctrl: mono.Dur(r.Int64N(int64(mono.Second))), Data: mono.Dur(r.Int64N(int64(mono.Second / 10)))}
	})
	m.opening.lead = mono.Dur(r.Int64N(int64(20*mono.Second))) * mono.Dur(r.IntN(2))
	m.gpus = r.IntN(20)
	m.retarget()
	now := sec(100)
	for range 1 + r.IntN(7) {
		m.Push(now, now.Add(10*mono.Second+mono.Dur(r.Int64N(int64(14*mono.Second)))), 0, 0)
		now = now.Add(mono.Dur(r.Int64N(int64(mono.Second))))
	}
	return m, now
}

// deferredExec is the exec of the whole deferral, as its definition in doc.go has it.
func deferredExec(m *Model, now mono.Time) mono.Time {
	c, p := m.candidate, m.cfg.Profile
	earliest, b := now.Add(c.Delay), int(c.Size)
	if b == p.MaxBatch() || m.ripe(b) {
		return earliest
	}
	frontrun := m.deadline(0).Add(-p.Latency(b + 1))
	open := max(frontrun.Add(-m.opening.lead), m.since.Add(m.company)) // without Delay.Lead
	return max(earliest, min(open, frontrun))
}

// Whatever the setting: exec is never before the order can be there, never after the whole
// deferral's, never earlier with less haste; Hold leads back to the whole deferral's exec; Size,
// Latest and Delay are the same; and haste 0 changes nothing.
func TestHasteAgainstWholeDeferral(t *testing.T) {
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 2))
	early := 0
	for round := range 5000 {
		m, now := drawn(t, r)
		m.Update(now, nil)
		whole := m.Candidate()
		if whole.Size == 0 {
			continue
		}
		if want := deferredExec(m, now); whole.Hold != 0 || whole.Exec != want {
			t.Fatalf("seed %d, round %d: haste 0 makes %+v, want exec %v and no hold", seed, round, whole, want)
		}
		alone := r.IntN(2) == 0
		before := whole.Exec
		for haste := range uint8(HasteAll + 1) {
			m.SetSetting(Setting{Haste: haste, Alone: alone, ByLatest: true})
			m.Update(now, nil)
			c := m.Candidate()
			same := c
			same.Exec, same.Hold = whole.Exec, 0
			off := whole.Exec.Sub(c.Deferred())
			if same != whole || c.Exec < now.Add(c.Delay) || c.Exec > before || off < 0 || off >= holdUnit || haste == 0 && c != whole {
				t.Fatalf("seed %d, round %d, haste %d, alone %v: %+v, with less haste exec %v, the whole deferral's %+v",
					seed, round, haste, alone, c, before, whole)
			}
			before = c.Exec
		}
		if before < whole.Exec {
			early++
		}
		if alone && before != min(whole.Exec, now.Add(whole.Delay)) && before.Sub(m.since) > HasteAll {
			t.Fatalf("seed %d, round %d: all haste starts at %v, could at %v", seed, round, before, now.Add(whole.Delay))
		}
	}
	if early < 500 {
		t.Fatalf("only %d candidates were early: the test shows too little", early)
	}
}

// Through whole lives of a model, haste 0 with any order and Alone gives the batches that the
// whole deferral gives: Alone and ByLatest are about early batches, and the rank.
func TestHasteZeroIsTheWholeDeferral(t *testing.T) {
	for seed := range uint64(20) {
		a, b := life(t, seed, Setting{}), life(t, seed, Setting{Alone: true, ByLatest: true})
		if !slices.Equal(a, b) || len(a) < 50 {
			t.Errorf("seed %d: %d and %d candidates, not the same", seed, len(a), len(b))
		}
		if c := life(t, seed, Setting{Haste: HasteAll}); slices.Equal(a, c) {
			t.Errorf("seed %d: all haste changes nothing", seed)
		}
	}
}

// life is the candidates of a model that is handed requests, and a GPU now and then.
func life(t *testing.T, seed uint64, s Setting) (all []Candidate) {
	r := rand.New(rand.NewPCG(seed, 3))
	m := hasty(t, s, nil)
	now := mono.Time(0)
	for range 200 {
		now = now.Add(mono.Dur(r.Int64N(int64(3 * mono.Second))))
		if m.NextWake() <= now {
			m.Update(now, nil)
		}
		m.Push(now, now.Add(24*mono.Second), 0, 0)
		m.Update(now, nil)
		all = append(all, m.Candidate())
		if r.IntN(4) == 0 {
			m.Take(now, Offer{FreeAt: now, GPUs: 2, Share: OneGPU, Rivals: r.IntN(2) == 0, Idle: r.IntN(2) == 0}, nil, nil)
			m.Update(now, nil)
			all = append(all, m.Candidate())
		}
	}
	return all
}

// Head takes the drop policy head in the place of the model's own.
func TestSettingHead(t *testing.T) {
	old := []float64{16.5, 16.6, 16.7, 16.8, 17, 17.5, 18.5, 19, 19.5, 20} // TestShedsUnderOverload
	for _, c := range []struct {
		set   Setting
		drops int
	}{{Setting{}, 6}, {Setting{Haste: HasteAll}, 6}, {Setting{Head: true}, 0}} {
		m := example(t, func(k *Config) { k.Policy = PolicyTarget })
		m.SetSetting(c.set)
		push(t, m, old...)
		if _, drops, _ := m.Take(sec(10), Offer{FreeAt: sec(10)}, nil, nil); len(drops) != c.drops {
			t.Errorf("%v: %d heads are shed, want %d", c.set, len(drops), c.drops)
		}
	}
}
