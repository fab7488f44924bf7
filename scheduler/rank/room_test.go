package rank

import (
	"math"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Rows of slack are in its order, and a row begins with slackOf it.
func TestSlackRows(t *testing.T) {
	last := 0
	for d := mono.Dur(1); d > 0 && d < mono.Never.Sub(0)/2; d += 1 + d/100 {
		row := slackRow(d)
		if row < last || row >= slackRows || slackOf(row) > max(d, slackSteps) || slackOf(row+1) <= d {
			t.Fatalf("%d ns: row %d of %d to %d ns, after row %d", d, row, slackOf(row), slackOf(row+1), last)
		}
		last = row
	}
	if ms := mono.Millisecond; slackRow(10*ms) == slackRow(12*ms) || slackRow(10*ms) != slackRow(10*ms+ms/100) {
		t.Error("rows are an eighth of a doubling, so 10 and 12 ms lie in two, 10 and 10.01 ms in one")
	}
}

const ms = mono.Millisecond

// load is a model's batches: so many in the first second, each of that length.
type load struct {
	slack, length mono.Dur
	batches       int
}

// roomy is a rank with room for tight models, at the begin of its second second. Model i had loads[i].
func roomy(gpus int, h Headroom, loads ...load) *Rank {
	r := New(Config{Headroom: h})
	for id := range gpus {
		r.AddGPU(wire.GPUID(id), 0)
	}
	r.SetRoom(true)
	for id, l := range loads {
		r.SetCandidate(wire.ModelID(id), candidate(mono.Never, mono.Never))
		for range l.batches {
			g := grantOf(r, id, 0)
			r.Answer(Answer{Grant: g, Batch: 1, Exec: 1, Until: mono.Time(1).Add(l.length), Slack: l.slack})
			r.Done(0, g.Life, 1, 1)
		}
		r.SetCandidate(wire.ModelID(id), candidate(0, 0))
		r.SetCandidate(wire.ModelID(id), candidate(mono.Never, mono.Never))
	}
	step(r, mono.Time(mono.Second))
	return r
}

// GPUs that are left are the last ones, a sixteenth or one, and for the models of the least slack that fill
// half of them.
func TestRoom(t *testing.T) {
	long := load{100 * ms, 20 * ms, 40}
	for _, c := range []struct {
		what  string
		gpus  int
		h     Headroom
		loads []load
		below uint32
		tight []bool
	}{
		{"one tight model", 4, Headroom{}, []load{long, {ms, ms, 100}}, 3, []bool{false, true}},
		{"a sixteenth of the GPUs", 64, Headroom{}, []load{long, {ms, ms, 100}}, 60, []bool{false, true}},
		{"both fit", 4, Headroom{}, []load{long, {2 * ms, ms, 200}, {ms, ms, 200}}, 3, []bool{false, true, true}},
		{"the tighter one fits", 4, Headroom{}, []load{long, {2 * ms, ms, 300}, {ms, ms, 300}}, 3, []bool{false, false, true}},
		{"on more GPUs both fit", 32, Headroom{}, []load{long, {2 * ms, ms, 300}, {ms, ms, 300}}, 30, []bool{false, true, true}},
		{"too much work", 4, Headroom{}, []load{long, {ms, ms, 600}}, math.MaxUint32, nil},
		{"slack for others' batches", 4, Headroom{}, []load{long, {25 * ms, ms, 100}}, math.MaxUint32, nil},
		{"one GPU", 1, Headroom{}, []load{long, {ms, ms, 100}}, math.MaxUint32, nil},
		{"a limited headroom", 4, Headroom{Limited: true, Share: 1}, []load{long, {ms, ms, 100}}, math.MaxUint32, nil},
		{"nothing ran", 4, Headroom{}, []load{{ms, ms, 0}}, math.MaxUint32, nil},
	} {
		r := roomy(c.gpus, c.h, c.loads...)
		if r.room.below != c.below {
			t.Errorf("%s: GPUs from %d on are left, want %d", c.what, r.room.below, c.below)
		}
		for id, tight := range c.tight {
			if got := r.room.of(r.models[id]) == math.MaxUint32; got != tight {
				t.Errorf("%s: model %d is tight: %v", c.what, id, got)
			}
		}
	}
}

// Room may be worth it where it would be left, and a model that needs it finds few GPUs while it may wait: also where it
// is not asked for.
func TestTight(t *testing.T) {
	long := load{100 * ms, 20 * ms, 40}
	for _, c := range []struct {
		what  string
		gpus  int
		h     Headroom
		loads []load
		want  bool
	}{
		{"it waits for less than a batch on four GPUs", 4, Headroom{}, []load{long, {10 * ms, ms, 100}}, true},
		{"for a twentieth of one on 64", 64, Headroom{}, []load{long, {ms, ms, 100}}, true},
		{"for half of one on 64", 64, Headroom{}, []load{long, {10 * ms, ms, 100}}, false},
		{"no room", 4, Headroom{}, []load{long, {25 * ms, ms, 100}}, false},
		{"one GPU", 1, Headroom{}, []load{long, {ms, ms, 100}}, false},
		{"a limited headroom", 4, Headroom{Limited: true, Share: 1}, []load{long, {ms, ms, 100}}, false},
		{"nothing ran", 4, Headroom{}, []load{{ms, ms, 0}}, false},
	} {
		r := roomy(c.gpus, c.h, c.loads...)
		for _, on := range []bool{true, false} {
			r.SetRoom(on)
			if got := r.Tight(mono.Time(mono.Second)); got != c.want {
				t.Errorf("%s, room %v: tight %v", c.what, on, got)
			}
		}
	}
}

// A model that leaves room waits while the GPU that is left is idle; one with little slack takes it, and any other.
func TestRoomIsLeft(t *testing.T) {
	r := roomy(3, Headroom{}, load{100 * ms, 20 * ms, 40}, load{100 * ms, 20 * ms, 40}, load{ms, ms, 100})
	now := mono.Time(mono.Second)
	at := func(d mono.Dur) mono.Time { return now.Add(d) }
	r.AddGPU(0, at(5*ms))
	r.AddGPU(1, at(9*ms))
	r.SetCandidate(0, candidate(now, at(80*ms)))
	r.SetCandidate(1, candidate(now, at(60*ms)))
	expect(t, r, now)
	if r.NextWake() != at(5*ms) {
		t.Fatalf("next wake in %v, want 5 ms: GPU 0", r.NextWake().Sub(now))
	}
	r.SetCandidate(2, candidate(now, at(ms)))
	expect(t, r, now, [2]int{2, 2})
	r.Answer(Answer{Grant: grantOf(r, 2, 2), Batch: 1, Exec: now, Until: at(ms), Slack: ms})
	r.SetCandidate(2, candidate(at(4*ms), at(70*ms)))
	r.AddGPU(2, at(20*ms))
	expect(t, r, at(4*ms))
	expect(t, r, at(5*ms), [2]int{1, 0}) // by latest
	expect(t, r, at(9*ms), [2]int{2, 1})
	r.Answer(Answer{Grant: grantOf(r, 1, 0)})
	expect(t, r, at(9*ms), [2]int{0, 0})
}

// What waits for the GPUs below takes the others when no room is left any more, or no other GPUs are.
func TestRoomIsTakenBack(t *testing.T) {
	for what, change := range map[string]func(*Rank){
		"another setting": func(r *Rank) { r.SetRoom(false) },
		"GPUs that go":    func(r *Rank) { r.RemoveGPU(0) },
	} {
		r := roomy(2, Headroom{}, load{100 * ms, 20 * ms, 40}, load{ms, ms, 100})
		now := mono.Time(mono.Second)
		r.AddGPU(0, now.Add(50*ms))
		r.SetCandidate(0, candidate(now, now.Add(80*ms)))
		expect(t, r, now)
		change(r)
		t.Log(what)
		expect(t, r, now, [2]int{0, 1})
	}
	r := roomy(2, Headroom{}, load{100 * ms, 20 * ms, 40}, load{ms, ms, 100})
	now := mono.Time(mono.Second)
	r.AddGPU(0, now.Add(50*ms))
	r.SetCandidate(0, candidate(now, now.Add(80*ms)))
	expect(t, r, now)
	r.RemoveModel(0)
	if r.NextWake() != mono.Never && r.NextWake() <= now.Add(50*ms) {
		t.Errorf("next wake in %v for a model that has gone", r.NextWake().Sub(now))
	}
}

// Through random lives of candidates and GPUs nothing waits that could run, and no wake-up is lost: walk checks both.
func TestRoomWalk(t *testing.T) {
	left := 0
	for seed := range uint64(60) {
		w := newWalk(t, seed, Headroom{})
		w.rank.SetRoom(true)
		for range 20 {
			w.run(100)
			if w.rank.room.below < walkGPUs {
				left++
			}
			w.now = w.now.Add(mono.Second / 3)
		}
		if len(w.log) < 100 {
			t.Errorf("seed %d: %d grants: the walk shows too little", seed, len(w.log))
		}
	}
	if left < 300 {
		t.Errorf("room was left at the end of %d of 1,200 stretches: the walks show too little", left)
	}
}

// What a step reckons once in a second takes no memory.
func TestRoomAllocates(t *testing.T) {
	r := roomy(4, Headroom{}, load{100 * ms, 20 * ms, 40}, load{ms, ms, 100})
	now := mono.Time(mono.Second)
	if n := testing.AllocsPerRun(100, func() {
		now = now.Add(mono.Second)
		r.leaveRoom(now)
		r.Tight(now)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
