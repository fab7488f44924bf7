package transport

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

func frame(n uint64) []byte { return (&wire.Answer{Request: wire.RequestID(n)}).Append(nil) }

// All or nothing at the limit, and room again after Moved.
func TestOutboxLimit(t *testing.T) {
	one := frame(1)
	o := NewOutbox(3 * len(one))
	for range 3 {
		if err := o.Send(one); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.Send(one); !errors.Is(err, ErrFull) {
		t.Fatalf("fourth of three: %v", err)
	}
	var b Batch
	if !o.Take(&b) || b.Counted() != 3*len(one) {
		t.Fatalf("took %d bytes", b.Counted())
	}
	if err := o.Send(one); !errors.Is(err, ErrFull) {
		t.Fatalf("taken but not moved is not room: %v", err)
	}
	o.Moved(2 * len(one))
	if err := o.Send(append(one, one...)); err != nil {
		t.Fatal(err)
	}
	if err := o.Send(append(one, one...)); !errors.Is(err, ErrFull) {
		t.Fatal("a part of a Send was taken")
	}
	if frames, full := o.Counts(); frames != 5 || full != 3 {
		t.Errorf("%d frames, %d refusals", frames, full)
	}
}

// A payload larger than the box goes while the box is not half full, a pong of the link's own
// in it or not, never else.
func TestOutboxLargePayload(t *testing.T) {
	o := NewOutbox(1000)
	if err := o.Reply(frame(1)); err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 5000)
	head := (&wire.Output{}).Append(nil, len(big))
	released := 0
	if err := o.SendPayload(head, big, func() { released++ }); err != nil {
		t.Fatal(err)
	}
	if err := o.SendPayload(head, big, func() { released++ }); !errors.Is(err, ErrFull) || released != 1 {
		t.Fatalf("second: %v, released %d", err, released)
	}
	// The link's own frames go through all the same, pings up to twice.
	if err := o.Reply(frame(1)); err != nil {
		t.Error(err)
	}
	if err := o.Ping(frame(1)); !errors.Is(err, ErrFull) {
		t.Errorf("a ping into an overfull box: %v", err)
	}
	var b Batch
	o.Take(&b)
	b.Release()
	b.Release()
	if released != 2 {
		t.Errorf("released %d times", released)
	}
}

// Whatever the order of events, each payload is released exactly once.
func TestOutboxReleases(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	o := NewOutbox(4000)
	released := map[int]int{}
	sent := 0
	var b Batch
	for step := range 5000 {
		switch rng.IntN(3) {
		case 0, 1:
			n, id := rng.IntN(900), sent
			sent++
			o.SendPayload((&wire.Output{}).Append(nil, n), make([]byte, n), func() { released[id]++ })
		case 2:
			if got, _ := o.TryTake(&b); got {
				size := b.Counted()
				for i := range b.Parts[:rng.IntN(len(b.Parts)+1)] {
					b.Parts[i].Release()
				}
				b.Release()
				o.Moved(size)
			}
		}
		if step == 4500 {
			o.Close(ErrClosed)
		}
	}
	for o.Take(&b) {
		b.Release()
	}
	for id := range sent {
		if released[id] != 1 {
			t.Fatalf("seed %d: payload %d of %d released %d times", seed, id, sent, released[id])
		}
	}
	if err := o.Send(frame(1)); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// Sending and taking allocate nothing once the buffers have grown.
func TestOutboxNoAllocation(t *testing.T) {
	o := NewOutbox(1 << 20)
	one := frame(1)
	payload := make([]byte, 100)
	head := (&wire.Output{}).Append(nil, len(payload))
	release := func() {}
	var b Batch
	step := func() {
		for range 10 {
			o.Send(one)
			o.SendPayload(head, payload, release)
		}
		o.Take(&b)
		n := b.Counted()
		b.Release()
		o.Moved(n)
	}
	if n := testing.AllocsPerRun(200, step); n != 0 {
		t.Fatalf("%v allocations, want 0", n)
	}
}

func BenchmarkOutbox(b *testing.B) {
	o := NewOutbox(1 << 20)
	one := frame(1)
	var batch Batch
	for i := 0; b.Loop(); i++ {
		o.Send(one)
		if i%64 == 0 {
			o.Take(&batch)
			o.Moved(batch.Counted())
		}
	}
}

// fakeNet gives round trips over clocks that lie offset apart.
type fakeNet struct {
	now    mono.Time
	offset mono.Dur // peer's clock minus ours
}

func (f *fakeNet) trip(h *Heart, there, back mono.Dur) {
	sent := f.now
	received := sent.Add(there).Add(f.offset)
	f.now = sent.Add(there + back)
	h.Sample(sent, received, received, f.now)
}

// With equal ways the offset is exact; with unequal ones it is wrong by at
// most half of the shortest round trip, and the bound still covers both ways.
func TestHeartOffsetAndBound(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 2))
	for range 200 {
		f := &fakeNet{now: 1e12, offset: mono.Dur(rng.Int64N(1e12)) - 5e11}
		h := NewHeart(mono.Second, mono.Now)
		thereMin, backMin := 1+mono.Dur(rng.Int64N(1e6)), 1+mono.Dur(rng.Int64N(1e6))
		var worst, least mono.Dur = 0, mono.Dur(1 << 60)
		for range heartWindow {
			there, back := thereMin+mono.Dur(rng.Int64N(1e5)), backMin+mono.Dur(rng.Int64N(1e5))
			worst = max(worst, min(there, back))
			least = min(least, there+back)
			f.trip(h, there, back)
			f.now = f.now.Add(100 * mono.Millisecond)
		}
		var st LinkStats
		h.Stats(&st)
		// Over the window the clocks may have drifted: the chosen sample may
		// be up to drift x window longer than the shortest.
		slack := mono.Dur(heartWindow)*100*mono.Millisecond/driftDiv/2 + 1e5
		if wrong := st.Offset - f.offset; wrong > least/2+slack || -wrong > least/2+slack {
			t.Fatalf("seed %d: offset wrong by %v, least round trip %v", seed, wrong, least)
		}
		if st.DelayBound < max(thereMin, backMin) && st.DelayBound < least {
			t.Fatalf("seed %d: bound %v does not cover ways of %v and %v", seed, st.DelayBound, thereMin, backMin)
		}
		if st.Samples != heartWindow || st.RTT < least {
			t.Fatalf("seed %d: %+v", seed, st)
		}
	}
}

// One slow answer of 128 is not the bound; old good samples give way to new
// ones when the clocks drift apart.
func TestHeartOutlierAndDrift(t *testing.T) {
	f := &fakeNet{now: 1e12, offset: 7e9}
	h := NewHeart(mono.Second, mono.Now)
	for i := range heartWindow {
		way := 50 * mono.Microsecond
		if i == 60 {
			way = 40 * mono.Millisecond
		}
		f.trip(h, way, way)
	}
	var st LinkStats
	h.Stats(&st)
	if st.DelayBound > mono.Millisecond || h.Shift() != -7e9 {
		t.Errorf("bound %v, shift %v", st.DelayBound, h.Shift())
	}
	f.offset += mono.Millisecond
	for range 20 {
		f.now = f.now.Add(mono.Second)
		f.trip(h, 60*mono.Microsecond, 60*mono.Microsecond)
	}
	if h.Shift() != -7e9-mono.Dur(mono.Millisecond) {
		t.Errorf("shift %v still follows a sample of 20 s ago", h.Shift())
	}
}

// A confused peer's instants are left out.
func TestHeartRefusesNonsense(t *testing.T) {
	h := NewHeart(mono.Second, mono.Now)
	h.Sample(100, 500, 400, 200) // replied before it received
	h.Sample(200, 500, 500, 100) // ended before it was sent
	h.Sample(100, 0, 900, 200)   // longer at the peer than in all
	var st LinkStats
	h.Stats(&st)
	if st.Samples != 0 || h.Shift() != 0 {
		t.Errorf("%+v", st)
	}
}

func TestAddresses(t *testing.T) {
	m := Mux{}
	for _, bad := range []string{"", "host:1", "http://x", "inproc"} {
		if _, err := m.Dial(t.Context(), bad, Options{}, nil); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := m.Listen("inproc:x", Options{}, nil); !errors.Is(err, ErrUnreachable) {
		t.Errorf("a scheme that this process has no network for: %v", err)
	}
	a, b := Token("x"), Token("")
	if b != [32]byte{} || bytes.Equal(a[:], b[:]) {
		t.Error("tokens")
	}
}

// A stream's outbox copies small payloads: they are released at once, lie behind
// their frames, and count as others do.
func TestOutboxCopiesSmallPayloads(t *testing.T) {
	o := NewStreamOutbox(4000)
	released := 0
	small, large := make([]byte, CopyMax), make([]byte, CopyMax+1)
	for _, p := range [][]byte{small, large} {
		if err := o.SendPayload((&wire.Output{}).Append(nil, len(p)), p, func() { released++ }); err != nil {
			t.Fatal(err)
		}
	}
	pinned := &pins{}
	if err := o.ReplyPinned((&wire.ReadReply{}).Append(nil, len(small)), small, pinned, wire.SlabRef{}); err != nil {
		t.Fatal(err)
	}
	if released != 1 || pinned.n != 1 {
		t.Errorf("released %d and unpinned %d, want 1 and 1: the large one is still needed", released, pinned.n)
	}
	var b Batch
	o.Take(&b)
	if len(b.Parts) != 1 || b.Parts[0].End != 2*len((&wire.Output{}).Append(nil, 0))+len(small) {
		t.Errorf("parts %+v", b.Parts)
	}
	counted := b.Counted()
	if want := len(b.Bytes) - len(small) + len(large); counted != want {
		t.Errorf("counted %d, want %d: a pinned payload is free", counted, want)
	}
	if got := b.Settle(100) + b.Settle(len(b.Bytes)-100) + len(large); got != counted {
		t.Errorf("settled piece by piece: %d, in all: %d", got, counted)
	}
	o.Moved(counted)
	if o.queued != 0 {
		t.Errorf("%d bytes stay queued", o.queued)
	}
	b.Release()
}

// pins counts Unpins.
type pins struct{ n int }

func (p *pins) Pin(wire.SlabRef, wire.RequestID) ([]byte, error) { return nil, ErrStale }
func (p *pins) Unpin(wire.SlabRef)                               { p.n++ }

// slabless counts the slabs that are given back.
type slabless struct{ unpinned int }

func (s *slabless) Pin(wire.SlabRef, wire.RequestID) ([]byte, error) { return nil, ErrStale }
func (s *slabless) Unpin(wire.SlabRef)                               { s.unpinned++ }

// Replies that are copied give their slabs back at once, but a peer that does not
// read them cannot have more than ReadsLimit lie here.
func TestCopiedRepliesAreBounded(t *testing.T) {
	o, slabs := NewStreamOutbox(1<<20), &slabless{}
	frame := (&wire.ReadReply{}).Append(nil, 8)
	reply := func() error { return o.ReplyPinned(frame, make([]byte, 8), slabs, wire.SlabRef{}) }
	fill := func(n int) {
		t.Helper()
		for i := range n {
			if err := reply(); err != nil {
				t.Fatalf("reply %d of %d: %v", i, n, err)
			}
		}
		if err := reply(); err != ErrFull {
			t.Fatalf("one more: %v, want ErrFull", err)
		}
	}
	fill(ReadsLimit)
	if slabs.unpinned != ReadsLimit+1 {
		t.Fatalf("%d slabs were given back, want all %d", slabs.unpinned, ReadsLimit+1)
	}
	var b Batch
	if got, _ := o.TryTake(&b); !got {
		t.Fatal("nothing to take")
	}
	if err := reply(); err != ErrFull {
		t.Fatalf("while the batch is being moved: %v, want ErrFull", err)
	}
	o.TryTake(&b) // the first batch has been moved
	fill(ReadsLimit)
}

// One pause does not make the bound, and two are forgotten: within a process, where heartbeats are
// rare, too.
func TestHeartForgetsPauses(t *testing.T) {
	now := mono.Time(mono.Second)
	h := NewHeart(mono.Second, func() mono.Time { return now })
	h.SetShift(0)
	beat := func(n int, delay mono.Dur) mono.Dur {
		for range n {
			now = now.Add(500 * mono.Millisecond)
			h.Sample(now, now.Add(delay), now.Add(delay), now.Add(2*delay))
		}
		var st LinkStats
		h.Stats(&st)
		return st.DelayBound
	}
	const usual, pause = 20 * mono.Microsecond, 2 * mono.Millisecond
	if got := beat(1, pause); got != pause {
		t.Errorf("of one sample %v, want %v", got, pause)
	}
	if got := beat(10, usual); got != usual {
		t.Errorf("after one pause %v, want %v", got, usual)
	}
	if got := beat(2, pause); got != pause {
		t.Errorf("after more %v, want %v", got, pause)
	}
	if got := beat(26, usual); got != usual {
		t.Errorf("13 s later %v, want %v", got, usual)
	}
}
