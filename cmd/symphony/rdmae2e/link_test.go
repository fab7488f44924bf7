package rdmae2e

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

const (
	objectSize  = 150_000
	payloadSize = 100_000
)

// A key that the peer's device does not know costs the lane, and no READ: TCP
// brings what was under way, and all that follows.
func TestWrongKey(t *testing.T) {
	need(t)
	p := startPeer(t, setting{Arena: 8 << 20})
	objects := p.tell(order{Do: "stock", Count: 16, Size: objectSize}).Objects
	r := newReader(t)
	r.dial(p, 0)
	stop := r.hammer(objects)
	time.Sleep(300 * time.Millisecond)
	p.tell(order{Do: "forget"})
	time.Sleep(1500 * time.Millisecond)
	y, st := stop(), r.net.Stats()
	say("wrong key under load: %v; lanes lost %d, READs moved to TCP %d", &y, st.LanesLost, st.ReadsMoved)
	if y.right != y.total() || st.LanesLost == 0 || st.ReadsMoved == 0 || st.ReadsTCP == 0 || st.ReadsRDMA == 0 {
		t.Errorf("%+v", st)
	}
	if y.slowest > hangMax {
		t.Errorf("a READ took %v", y.slowest)
	}
	r.hangUp()
	p.leave()
}

// Slabs are given to other requests while they are READ: each READ brings its own
// request's bytes, or says that it came too late.
func TestStaleSlab(t *testing.T) {
	need(t)
	p := startPeer(t, setting{Arena: 8 << 20})
	r := newReader(t)
	r.dial(p, 0)
	var all tally
	for range 5 {
		objects := p.tell(order{Do: "stock", Count: 16, Size: objectSize}).Objects
		stop := r.hammer(objects)
		time.Sleep(200 * time.Millisecond)
		p.tell(order{Do: "stock", Count: 16, Size: objectSize})
		time.Sleep(50 * time.Millisecond)
		y := stop()
		all.right, all.stale, all.wrong = all.right+y.right, all.stale+y.stale, all.wrong+y.wrong
		all.closed, all.other, all.slowest = all.closed+y.closed, all.other+y.other, max(all.slowest, y.slowest)
	}
	st := r.net.Stats()
	say("stale slabs under load: %v; by RDMA %d, stale %d", &all, st.ReadsRDMA, st.ReadsStale)
	if all.right == 0 || all.stale == 0 || all.right+all.stale != all.total() || st.ReadsStale == 0 || st.LanesLost != 0 || st.ReadsTCP != 0 {
		t.Errorf("%+v", st)
	}
	if all.slowest > hangMax {
		t.Errorf("a READ took %v", all.slowest)
	}
	r.hangUp()
	p.leave()
}

// A peer that takes no frames uses up its receives: Send says full, READs go on,
// and when it goes on every frame comes once and in order.
func TestExhaustedReceives(t *testing.T) {
	need(t)
	p := startPeer(t, setting{Arena: 8 << 20})
	objects := p.tell(order{Do: "stock", Count: 8, Size: objectSize}).Objects
	r := newReader(t)
	r.dial(p, 0)
	sent := uint64(0)
	for range 2 {
		p.tell(order{Do: "block"})
		stop := r.hammer(objects)
		begin, full := time.Now(), 0
		for ; full < 50 && time.Since(begin) < 20*time.Second; time.Sleep(time.Millisecond) {
			err := fillUp(r.link, &sent)
			if !errors.Is(err, transport.ErrFull) {
				t.Fatalf("after %d frames: %v", sent, err)
			}
			full++
		}
		y := stop()
		p.tell(order{Do: "unblock"})
		begin = time.Now()
		eventually(t, "all frames", func() error {
			if n := p.tell(order{Do: "received"}).Received; n != sent {
				return errors.New("still missing some")
			}
			return nil
		})
		say("receives used up: full after %d frames; meanwhile %v; recovered in %v", sent, &y, time.Since(begin).Round(time.Millisecond))
		if full < 50 || y.right == 0 || y.right != y.total() || y.slowest > hangMax {
			t.Errorf("full %d times; %v", full, &y)
		}
	}
	if st := r.net.Stats(); st.LanesLost != 0 {
		t.Errorf("%+v", st)
	}
	r.hangUp()
	p.leave()
}

// fillUp sends numbered frames until one is refused.
func fillUp(l transport.Link, sent *uint64) error {
	for {
		if err := l.Send((&wire.Answer{Request: wire.RequestID(*sent)}).Append(nil)); err != nil {
			return err
		}
		*sent++
	}
}

// A peer that never polls (it stands still) is given up for silent, whatever was on
// its way to it is released, and nothing of the link is left.
func TestPeerNeverPolls(t *testing.T) {
	need(t)
	r := newReader(t)
	const rounds = 3
	var first int
	for round := range rounds {
		p := startPeer(t, setting{Arena: 8 << 20})
		objects := p.tell(order{Do: "stock", Count: 16, Size: objectSize}).Objects
		// One link that comes and goes in peace: what a first link takes for good is there.
		var y tally
		r.dial(p, 0)
		r.read(objects, &y)
		r.net.Buffers().Free(r.net.Buffers().Alloc(payloadSize))
		r.hangUp()
		before := steady(t)
		r.dial(p, 0)
		r.losePeer(p, objects)
		now := resources(t)
		if now.qp > before.qp+1 || now.mr > before.mr+2 || now.cq != before.cq || now.pd != before.pd {
			t.Errorf("the link is over here, and the kernel holds %v; without a link %v", now, before) // the peer's end is held until it wakes
		}
		p.signal(syscall.SIGCONT)
		settle(t, "the link is over at both ends", before)
		p.leave()
		if round == 0 {
			first = rss(t, os.Getpid())
		}
	}
	now := rss(t, os.Getpid())
	say("memory of the reader: %d MiB after the first silent peer, %d after %d", first, now, rounds)
	if now > first+32 {
		t.Errorf("memory after %d rounds: %d MiB, after the first %d", rounds, now, first)
	}
}

// losePeer freezes the peer while it is READ and has payloads on their way to it.
func (r *reader) losePeer(p *peerProcess, objects []object) {
	t := r.t
	t.Helper()
	stop := r.hammer(objects)
	time.Sleep(100 * time.Millisecond)
	p.freeze()
	begin := time.Now()
	var sent, released atomic.Int64
	payload := r.net.Buffers().Alloc(payloadSize)
	defer r.net.Buffers().Free(payload)
	for range 20 {
		sent.Add(1)
		_ = r.link.SendPayload((&wire.Output{}).Append(nil, len(payload)), payload, func() { released.Add(1) })
	}
	err := r.awaitEnd()
	took := time.Since(begin)
	y := stop()
	r.link = nil
	say("peer that never polls: %v after %v; %v; %d of %d payloads released", err, took.Round(time.Millisecond), &y, released.Load(), sent.Load())
	if !errors.Is(err, transport.ErrSilent) || took > hangMax || released.Load() != sent.Load() || y.wrong+y.other > 0 {
		t.Errorf("it ended with %v after %v; %d of %d payloads released; %v", err, took, released.Load(), sent.Load(), &y)
	}
}
