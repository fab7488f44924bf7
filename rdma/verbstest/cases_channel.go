package verbstest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/transport/mono"
)

// wait waits on the end's channel.
func (e *end) wait(timeout mono.Dur, want bool) {
	e.t.Helper()
	begin := mono.Now()
	got, err := e.ch.Wait(timeout)
	if err != nil || got != want {
		e.t.Fatalf("waited %v of %v: %v, %v, want %v", mono.Now().Sub(begin), timeout, got, err, want)
	}
}

// short is a timeout that we expect to pass.
const short = 20 * mono.Millisecond

// testChannelEvent: an arming brings one event, with the next entry.
func testChannelEvent(t *testing.T, f Fixture) {
	a, b := connect(t, f, plan{})
	b.postRecv(b.recvs(0, 3)...)
	for i := range uint64(2) {
		if err := b.recvCQ.Arm(); err != nil {
			t.Fatal(err)
		}
		if got := poll(t, b.recvCQ); len(got) != 0 {
			t.Fatalf("nobody sent %+v", got)
		}
		b.wait(short, false)
		a.post(a.send(i, 0, 16))
		b.wait(patience, true)
		b.received(i, 16)
		a.sent(i, rdma.DidSend)
	}
	a.post(a.send(2, 0, 16)) // not armed
	b.received(2, 16)
	b.wait(short, false)
}

func testChannelTimeout(t *testing.T, f Fixture) {
	a, _ := connect(t, f, plan{})
	a.wait(0, false)
	a.wait(short, false)
	if err := a.sendCQ.Arm(); err != nil {
		t.Fatal(err)
	}
	a.wait(short, false)
}

// testChannelWake: before and during a Wait; from anywhere.
func testChannelWake(t *testing.T, f Fixture) {
	a, _ := connect(t, f, plan{})
	begin := mono.Now()
	a.ch.Wake()
	a.wait(patience, false)
	var waking sync.WaitGroup
	for range 20 {
		waking.Go(func() {
			time.Sleep(time.Millisecond)
			a.ch.Wake()
		})
		a.wait(patience, false)
		waking.Wait()
	}
	if mono.Now().Sub(begin) >= patience {
		t.Fatal("a Wake did not end a Wait")
	}
}

// testNoLostWakeUp: who arms, polls once more and then waits, is woken.
func testNoLostWakeUp(t *testing.T, f Fixture) {
	const n, depth = 300, 16
	a, b := connect(t, f, plan{depth: depth})
	var stop atomic.Bool
	var sender sync.WaitGroup
	t.Cleanup(func() { stop.Store(true); sender.Wait() })
	b.postRecv(b.recvs(0, depth)...)
	sender.Go(func() {
		for i := uint64(0); i < n && !stop.Load(); i++ {
			if err := a.sendAndPoll(i, &stop); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Duration(i%4) * 50 * time.Microsecond)
		}
	})
	for next := uint64(0); next < n; {
		got := poll(t, b.recvCQ)
		if len(got) == 0 {
			if err := b.recvCQ.Arm(); err != nil {
				t.Fatal(err)
			}
			got = poll(t, b.recvCQ)
		}
		for _, c := range got {
			b.want(c, next%depth, rdma.DidRecv)
			b.postRecv(rdma.RecvWR{ID: next % depth, SGE: b.mem.piece(0, 16)})
			next++
		}
		if len(got) == 0 {
			b.wait(patience, true)
		}
	}
}

// sendAndPoll sends and waits for its end; not on the test's goroutine.
func (e *end) sendAndPoll(id uint64, stop *atomic.Bool) error {
	if _, err := e.qp.PostSend([]rdma.SendWR{e.send(id, 0, 16)}); err != nil {
		return err
	}
	var dst [1]rdma.Completion
	for !stop.Load() {
		n, err := e.sendCQ.Poll(dst[:], 100)
		if err != nil {
			return err
		}
		if n == 1 && (dst[0].Status != rdma.StatusOK || dst[0].ID != id) {
			return fmt.Errorf("send %d: %+v", id, dst[0])
		}
		if n == 1 {
			break
		}
	}
	return nil
}
