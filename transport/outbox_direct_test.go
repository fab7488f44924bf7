package transport

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// sleeping makes an outbox whose mover found nothing.
func sleeping(near func([]byte) int) *Outbox {
	o := NewStreamOutbox(1 << 20)
	o.Direct(near)
	o.pace.since = mono.Now().Add(mono.Second) // at rest for the whole test
	var b Batch
	o.TryTake(&b)
	return o
}

func TestOutboxDirect(t *testing.T) {
	var moved []byte
	calls := 0
	o := sleeping(func(b []byte) int { calls++; moved = append(moved, b...); return len(b) })
	head := (&wire.Output{}).Append(nil, 3)
	released := 0
	for range 2 {
		if err := o.PayloadLater(head, []byte("abc"), func() { released++ }); err != nil {
			t.Fatal(err)
		}
	}
	if calls != 0 || released != 2 {
		t.Fatalf("%d writes before Flush, released %d", calls, released)
	}
	o.Flush()
	o.Flush()
	one := append(bytes.Clone(head), "abc"...)
	if want := append(bytes.Clone(one), one...); calls != 1 || !bytes.Equal(moved, want) || o.queued != 0 {
		t.Fatalf("%d writes of %d bytes, want 1 of %d; %d still count", calls, len(moved), len(want), o.queued)
	}
	select {
	case <-o.Wake():
		t.Error("the mover was woken for nothing")
	default:
	}
	f := frame(1)
	if n := testing.AllocsPerRun(100, func() { moved = moved[:0]; _ = o.Send(f) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Flush tells who may let the receiver go first: only where it left at once, and only
// while there is little to do.
func TestFlushIsCalm(t *testing.T) {
	o := sleeping(func(b []byte) int { return len(b) })
	flush := func(calm bool) bool {
		o.pace.calm = calm
		if err := o.Later(frame(1)); err != nil {
			t.Fatal(err)
		}
		return o.Flush()
	}
	if !flush(true) || flush(false) {
		t.Error("a flush at rest, or one of a link with more to do")
	}
	if o.pace.calm = true; o.Flush() {
		t.Error("calm although nothing left")
	}
	o.Direct(func([]byte) int { return 0 })
	if flush(true) {
		t.Error("calm although the socket is full")
	}
	o = sleeping(func(b []byte) int { return len(b) })
	o.pace.busy = true
	if flush(true) {
		t.Error("calm although the mover writes")
	}
}

// What a full socket leaves goes to the mover, in front of what comes after.
func TestOutboxDirectLeavesARest(t *testing.T) {
	o := sleeping(nil)
	o.Direct(func([]byte) int {
		o.mu.Lock() // the lock is free meanwhile: somebody else sends
		o.mu.Unlock()
		_ = o.Send(frame(2))
		return 5
	})
	_ = o.Send(frame(1))
	<-o.Wake()
	var b Batch
	want := append(frame(1)[5:], frame(2)...)
	if got, _ := o.TryTake(&b); !got || !bytes.Equal(b.Bytes, want) || b.Counted() != o.queued {
		t.Fatalf("mover took %d bytes, %d count of %d", len(b.Bytes), b.Counted(), o.queued)
	}
}

// Payloads by reference, a busy link and a closed one are the mover's.
func TestOutboxDirectNot(t *testing.T) {
	none := func([]byte) int { t.Error("a sender moved"); return 0 }
	big := make([]byte, CopyMax+1)
	o := sleeping(none)
	_ = o.SendPayload((&wire.Output{}).Append(nil, len(big)), big, nil)
	<-o.Wake()

	o = sleeping(none)
	o.pace.busy = true
	_ = o.Send(frame(1))
	<-o.Wake()

	o = sleeping(nil)
	o.Direct(func(b []byte) int { o.Close(ErrClosed); return len(b) })
	_ = o.Send(frame(1))
	<-o.Wake() // or the mover would sleep for ever
	if err := o.Send(frame(2)); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestCalm(t *testing.T) {
	for _, c := range []struct {
		flushes int
		calm    bool
	}{{calmMost, true}, {1000 * calmMost, false}} {
		p := pace{flushes: c.flushes, since: mono.Now().Add(-3 * paceSpan / 2)}
		if p.light(); p.calm != c.calm {
			t.Errorf("%d flushes in about one and a half spans: calm %v", c.flushes, p.calm)
		}
	}
}

func TestPace(t *testing.T) {
	p := pace{flushes: paceMost, since: mono.Now().Add(-paceSpan)}
	if !p.light() {
		t.Error("few flushes are no load")
	}
	p = pace{flushes: 1000 * paceMost, since: mono.Now().Add(-paceSpan)}
	if p.light() {
		t.Error("many are none, either")
	}
}

// Senders and the mover take turns: every frame once, each sender's in order.
func TestOutboxDirectRace(t *testing.T) {
	const senders, each = 4, 2000
	var mu sync.Mutex
	var stream []byte
	write := func(b []byte, n int) int {
		mu.Lock()
		defer mu.Unlock()
		stream = append(stream, b[:n]...)
		return n
	}
	o := NewStreamOutbox(1 << 30)
	turn := 0
	o.Direct(func(b []byte) int { turn++; return write(b, len(b)-turn%3) })
	o.pace.since = mono.Now().Add(mono.Second * 1000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for b := (Batch{}); o.Take(&b); {
			o.Moved(b.Settle(write(b.Bytes, len(b.Bytes))))
		}
	}()
	var wait sync.WaitGroup
	for s := range uint64(senders) {
		wait.Go(func() {
			for i := range uint64(each) {
				if o.Send(frame(s<<32|i)) != nil {
					t.Error("refused")
				}
			}
		})
	}
	wait.Wait()
	o.Close(ErrClosed)
	<-done
	next := make([]uint64, senders)
	for len(stream) > 0 {
		h, need, err := wire.Scan(stream, 0)
		var m wire.Answer
		if err != nil || need > 0 || m.Decode(stream[wire.HeaderSize:h.Size()]) != nil {
			t.Fatalf("garbage: %v", err)
		}
		if s := uint64(m.Request) >> 32; uint64(uint32(m.Request)) != next[s] {
			t.Fatalf("sender %d: frame %d, want %d", s, uint32(m.Request), next[s])
		} else {
			next[s]++
		}
		stream = stream[h.Size():]
	}
	for s, n := range next {
		if n != each {
			t.Errorf("sender %d: %d frames", s, n)
		}
	}
}
