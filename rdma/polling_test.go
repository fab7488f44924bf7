package rdma_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/fakeverbs"
	"github.com/symphony-serving/symphony/transport/mono"
)

var small = rdma.ConnConfig{SendDepth: 16, RecvDepth: 16}

// Every way of polling delivers: messages one by one, with a pause (asleep) and
// without, and over Conns of two CQs.
func TestEveryPollModeDelivers(t *testing.T) {
	for name, mode := range map[string]rdma.PollMode{"adaptive": rdma.PollAdaptive, "busy": rdma.PollBusy, "event": rdma.PollEvent} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fakeverbs.Config{Attr: rdma.DeviceAttr{CQDepth: 40}}, rdma.Config{Poll: mode}, small)
			for id := range uint32(200) {
				if id%50 == 0 {
					time.Sleep(5 * time.Millisecond) // longer than any spin
				}
				r.exchange(t, id)
			}
			other, err := r.a.nic.NewConn(small, &witness{}) // does not fit the first CQ
			if err != nil {
				t.Fatal(err)
			}
			for id := range uint32(50) {
				r.exchange(t, id)
			}
			if err := other.Close(); err != nil {
				t.Error(err)
			}
			st := r.a.nic.PollStats()
			if st.Completions < 250 || (st.Sleeps == 0) != (mode == rdma.PollBusy) {
				t.Errorf("%+v", st)
			}
			if fails := append(r.a.told.failures(), r.b.told.failures()...); len(fails) > 0 {
				t.Error(fails)
			}
		})
	}
}

// Invariant 4: with nothing to do the thread looks a few times a second (for what
// no event tells: see sweep), and without a Conn not even that.
func TestAnIdleNICSleeps(t *testing.T) {
	for name, mode := range map[string]rdma.PollMode{"adaptive": rdma.PollAdaptive, "event": rdma.PollEvent} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fakeverbs.Config{}, rdma.Config{Poll: mode}, small)
			for id := range uint32(100) {
				r.exchange(t, id)
			}
			polls := func(during time.Duration) uint64 {
				before := r.a.nic.PollStats().Polls
				time.Sleep(during)
				return r.a.nic.PollStats().Polls - before
			}
			polls(200 * time.Millisecond) // until what it learnt of the traffic is forgotten
			if n := polls(500 * time.Millisecond); n > 50 {
				t.Errorf("%d polls in half a second with a Conn", n)
			}
			if err := r.a.conn.Close(); err != nil {
				t.Fatal(err)
			}
			polls(50 * time.Millisecond)
			if n := polls(300 * time.Millisecond); n > 2 {
				t.Errorf("%d polls in 0.3 s without a Conn", n)
			}
		})
	}
}

// What comes between the last look and the arming brings no event: it must be
// looked for once more, or it waits for the next sweep.
func TestNothingIsMissedBetweenLookingAndSleeping(t *testing.T) {
	m, s := open(t, fakeverbs.New(fakeverbs.Config{}), rdma.Config{Poll: rdma.PollEvent})
	if err := s.connection(small); err != nil {
		t.Fatal(err)
	}
	if err := s.conn.PostReceives(s.receives(0, 16)); err != nil {
		t.Fatal(err)
	}
	qp, late := s.conn.Local().QPN, 0
	for i, id := range m.ids() {
		var begin atomic.Int64
		m.mu.Lock()
		m.armed = sync.OnceFunc(func() {
			begin.Store(int64(mono.Now()))
			m.forge(rdma.Completion{ID: id, QP: qp, Kind: rdma.DidRecv})
		})
		m.mu.Unlock()
		until(t, "the entry", func() bool { _, n := s.told.seen(); return n == i+1 })
		if mono.Now().Sub(mono.Time(begin.Load())) > 40*mono.Millisecond {
			late++
		}
	}
	if late > 4 { // of 16; this machine does other things, too
		t.Errorf("%d entries waited for the sweep", late)
	}
}

// A busy one does not sleep.
func TestPollBusyNeverSleeps(t *testing.T) {
	r := newRig(t, fakeverbs.Config{}, rdma.Config{Poll: rdma.PollBusy}, small)
	until(t, "many polls", func() bool { return r.a.nic.PollStats().Polls >= 100 })
	if st := r.a.nic.PollStats(); st.Sleeps > 0 {
		t.Errorf("%+v", st)
	}
}

// A device that swallows a send is found out, by a thread that sleeps or not.
func TestStuckSendsFailTheConn(t *testing.T) {
	for name, mode := range map[string]rdma.PollMode{"adaptive": rdma.PollAdaptive, "busy": rdma.PollBusy, "event": rdma.PollEvent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, fakeverbs.Config{}, rdma.Config{Poll: mode, StuckAfter: 200 * mono.Millisecond}, small)
			r.exchange(t, 0)
			r.fabric.Freeze()
			begin := time.Now()
			if err := r.a.conn.Post([]rdma.SendWR{r.a.wr(r.b, 1, rdma.OpWrite, true)}); err != nil {
				t.Fatal(err)
			}
			until(t, "Failed", func() bool { return len(r.a.told.failures()) > 0 })
			took := time.Since(begin)
			says(t, r.a.told.failures()[0], "hangs", "200")
			if took < 200*time.Millisecond || took > patience/2 {
				t.Errorf("it took %v to see", took)
			}
			until(t, "the flush", func() bool { n, _ := r.a.told.seen(); return n == 2 })
			says(t, r.a.conn.Post([]rdma.SendWR{r.a.wr(r.b, 2, rdma.OpWrite, true)}), "hangs")
			if n := len(r.b.told.failures()); n > 0 {
				t.Errorf("the peer, which sent nothing, failed")
			}
		})
	}
}

// A Conn that waits for nothing is never stuck.
func TestAnIdleConnIsNotStuck(t *testing.T) {
	r := newRig(t, fakeverbs.Config{}, rdma.Config{StuckAfter: 50 * mono.Millisecond}, small)
	r.exchange(t, 0)
	time.Sleep(300 * time.Millisecond)
	r.exchange(t, 1)
}

// events collects what Config.Event is told.
type events struct {
	mu  sync.Mutex // Guards what follows.
	all []rdma.Event
}

func (e *events) take(v rdma.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, v)
}

func (e *events) has(kind rdma.EventKind) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, v := range e.all {
		if v.Kind == kind {
			return true
		}
	}
	return false
}

// The device's events reach Config.Event, and that of a queue pair fails its
// Conn, though no completion tells of it.
func TestEventsOfTheDevice(t *testing.T) {
	var all events
	r := newRig(t, fakeverbs.Config{}, rdma.Config{Event: all.take}, small)
	r.exchange(t, 0)
	// b is asked for memory that it does not have: a learns by its completion, b by
	// the event alone.
	wr := r.a.wr(r.b, 1, rdma.OpRead, true)
	wr.RKey ^= 0x100
	if err := r.a.conn.Post([]rdma.SendWR{wr}); err != nil {
		t.Fatal(err)
	}
	until(t, "b's event", func() bool { return all.has(rdma.EventQPFatal) })
	until(t, "both to fail", func() bool { return len(r.a.told.failures()) == 1 && len(r.b.told.failures()) == 1 })
	says(t, r.a.told.failures()[0], "wrong key")
	says(t, r.b.told.failures()[0], "queue pair failed")
}

// A port that goes down fails the Conns at once: who has another way to go need not
// wait for all retries.
func TestPortDownFailsAtOnce(t *testing.T) {
	var all events
	r := newRig(t, fakeverbs.Config{RetryDelay: mono.Second * 3600}, rdma.Config{Event: all.take}, small)
	r.nic("a").Down()
	until(t, "port down", func() bool { return all.has(rdma.EventPortDown) })
	until(t, "Failed", func() bool { return len(r.a.told.failures()) == 1 })
	says(t, r.a.told.failures()[0], "port down")
	r.nic("a").Up()
	until(t, "port up", func() bool { return all.has(rdma.EventPortUp) })
}

// Where nothing is outstanding no completion tells of a failure: the sweep does,
// and only of the first.
func TestFailReachesAnIdleConn(t *testing.T) {
	r := newRig(t, fakeverbs.Config{}, rdma.Config{}, small)
	begin := time.Now()
	r.a.conn.Fail(errNo)
	r.a.conn.Fail(errOther) // the first counts
	until(t, "Failed", func() bool { return len(r.a.told.failures()) == 1 })
	if took := time.Since(begin); took > patience/2 {
		t.Errorf("after %v", took)
	}
	if err := r.a.told.failures()[0]; err != errNo {
		t.Errorf("told %v", err)
	}
	if err := r.a.conn.PostReceives(r.a.receives(0, 1)); err != errNo {
		t.Errorf("a receive on a failed Conn: %v", err)
	}
}

const (
	errNo    = wordedError("no")
	errOther = wordedError("other")
)

type wordedError string

func (e wordedError) Error() string { return string(e) }
