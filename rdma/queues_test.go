package rdma_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/fakeverbs"
	"github.com/symphony-serving/symphony/transport/mono"
)

// open opens host a's device, behind a meddler, and closes it at the test's end.
func open(t *testing.T, f *fakeverbs.Fabric, c rdma.Config) (*meddler, *side) {
	t.Helper()
	m := &meddler{Verbs: f.Host("a"), refuse: -1}
	s, err := newSide(m, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
		checkOpen(t, f)
	})
	return m, s
}

// says wants an error with all the words.
func says(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// What cannot be is refused before anything is made, and the error has the
// numbers to change.
func TestDepthsBeyondTheDevice(t *testing.T) {
	_, s := open(t, fakeverbs.New(fakeverbs.Config{Attr: rdma.DeviceAttr{QPDepth: 100, CQDepth: 150}}), rdma.Config{})
	says(t, s.connection(rdma.ConnConfig{SendDepth: 101, RecvDepth: 1}), "fake0", "100", "101", "smaller depths")
	says(t, s.connection(rdma.ConnConfig{SendDepth: 1, RecvDepth: 101}), "fake0", "100", "101", "smaller depths")
	says(t, s.connection(rdma.ConnConfig{SendDepth: 80, RecvDepth: 80}), "fake0", "150", "160", "smaller depths")
	if err := s.connection(rdma.ConnConfig{SendDepth: 75, RecvDepth: 75}); err != nil {
		t.Errorf("what just fits: %v", err)
	}
}

// A Conn deeper than the usual CQ gets one as large as it needs.
func TestAConnDeeperThanTheUsualCQ(t *testing.T) {
	m, s := open(t, fakeverbs.New(fakeverbs.Config{}), rdma.Config{})
	if err := s.connection(rdma.ConnConfig{SendDepth: 20_000, RecvDepth: 20_000}); err != nil {
		t.Fatal(err)
	}
	if d := m.depths(); len(d) != 1 || d[0] < 40_000 {
		t.Errorf("CQs of %v", d)
	}
}

// Invariant 2: Conns share a CQ while their depths fit in it, then there is
// another; what a closed Conn held is free again.
func TestConnsShareCQs(t *testing.T) {
	m, s := open(t, fakeverbs.New(fakeverbs.Config{Attr: rdma.DeviceAttr{CQDepth: 100, CQs: 3}}), rdma.Config{})
	depths := rdma.ConnConfig{SendDepth: 20, RecvDepth: 10}
	var all []*rdma.Conn
	add := func() error {
		c, err := s.nic.NewConn(depths, s.told)
		if err == nil {
			all = append(all, c)
		}
		return err
	}
	for i, want := range []int{1, 1, 1, 2, 2, 2, 3, 3, 3} {
		if err := add(); err != nil {
			t.Fatal(err)
		}
		if got := len(m.depths()); got != want {
			t.Errorf("%d CQs for %d Conns, want %d", got, i+1, want)
		}
	}
	says(t, add(), "fake0", "3 completion queues are full")
	if err := all[4].Close(); err != nil {
		t.Fatal(err)
	}
	if err := add(); err != nil {
		t.Errorf("a place became free: %v", err)
	}
	for _, c := range slices.Delete(all, 4, 5) {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := len(m.depths()); got != 3 {
		t.Errorf("%d CQs were made in all", got)
	}
}

// A QP that cannot be made gives its part of the CQ back.
func TestAFailedConnReservesNothing(t *testing.T) {
	_, s := open(t, fakeverbs.New(fakeverbs.Config{Attr: rdma.DeviceAttr{CQDepth: 100, CQs: 1}}), rdma.Config{})
	for range 10 {
		says(t, s.connection(rdma.ConnConfig{SendDepth: 0, RecvDepth: 40}), "fake0", "queue pair")
	}
	s.conn = nil
	if err := s.connection(rdma.ConnConfig{SendDepth: 60, RecvDepth: 40}); err != nil {
		t.Error(err)
	}
}

func TestOutOfQueuePairs(t *testing.T) {
	_, s := open(t, fakeverbs.New(fakeverbs.Config{Attr: rdma.DeviceAttr{QPs: 1}}), rdma.Config{})
	depths := rdma.ConnConfig{SendDepth: 1, RecvDepth: 1}
	if err := s.connection(depths); err != nil {
		t.Fatal(err)
	}
	_, err := s.nic.NewConn(depths, s.told)
	says(t, err, "fake0", "1 queue pairs are in use")
}

// More than the depth is refused whole, and nothing is owed for it. A slot whose
// send has no signal is taken until a later one completes.
func TestPostRefusesWhatDoesNotFit(t *testing.T) {
	r := newRig(t, fakeverbs.Config{}, rdma.Config{}, rdma.ConnConfig{SendDepth: 4, RecvDepth: 8})
	id := uint32(0)
	post := func(n int, signalled bool) error {
		var wrs []rdma.SendWR
		for i := range n {
			id++
			wrs = append(wrs, r.a.wr(r.b, id, rdma.OpWrite, signalled && i == n-1))
		}
		return r.a.conn.Post(wrs)
	}
	if err := post(5, true); !errors.Is(err, rdma.ErrDepth) {
		t.Errorf("5 in a queue of 4: %v", err)
	}
	if err := post(3, false); err != nil {
		t.Fatal(err)
	}
	if err := post(2, true); !errors.Is(err, rdma.ErrDepth) || r.a.conn.Room() != 1 {
		t.Errorf("2 where 3 of 4 are taken: %v, room for %d", err, r.a.conn.Room())
	}
	if err := post(1, true); err != nil {
		t.Fatal(err)
	}
	until(t, "the queue to empty", func() bool { return r.a.conn.Room() == 4 })
	if n, _ := r.a.told.seen(); n != 4 {
		t.Errorf("%d completions of 4 posted", n)
	}
}

// A device may hand out a number again, and entries of the old queue pair after
// that: they are not the new one's.
func TestStaleCompletionsAreNobodys(t *testing.T) {
	m, s := open(t, fakeverbs.New(fakeverbs.Config{}), rdma.Config{})
	depths := rdma.ConnConfig{SendDepth: 4, RecvDepth: 4}
	old, err := s.nic.NewConn(depths, &witness{})
	if err != nil {
		t.Fatal(err)
	}
	if err = errors.Join(old.PostReceives(s.receives(0, 2)), old.Close()); err != nil {
		t.Fatal(err)
	}
	stale := m.ids()
	if err = s.connection(depths); err != nil {
		t.Fatal(err)
	}
	if err = s.conn.PostReceives(s.receives(0, 2)); err != nil {
		t.Fatal(err)
	}
	qp := s.conn.Local().QPN
	for _, id := range stale {
		m.forge(rdma.Completion{ID: id, QP: qp}, rdma.Completion{ID: id, QP: qp, Status: rdma.StatusFlushed},
			rdma.Completion{ID: id &^ (1 << 31), QP: qp}) // as a send's
	}
	m.forge(rdma.Completion{ID: m.ids()[2], QP: qp + 1}) // a number that nobody has
	until(t, "the entries to be polled", func() bool { return m.pending() == 0 })
	if err := s.conn.PostReceives(s.receives(2, 1)); err != nil {
		t.Errorf("an old entry failed the new Conn: %v", err)
	}
	if sent, received := s.told.seen(); sent+received > 0 {
		t.Errorf("the new Conn was told of %d sends and %d receives of the old one", sent, received)
	}
}

// A completion that the polling thread holds when Close gives up waiting for it
// comes too late: by then the handler's memory may be gone.
func TestNothingIsHandedOutAfterClose(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{})
	m, s := open(t, f, rdma.Config{})
	depths := rdma.ConnConfig{SendDepth: 4, RecvDepth: 4}
	slow := &witness{}
	entered, leave := make(chan struct{}), make(chan struct{})
	block := sync.OnceFunc(func() { close(entered); <-leave })
	slow.onReceived = func(uint32) { block() }
	blocker, err := s.nic.NewConn(depths, slow)
	if err != nil {
		t.Fatal(err)
	}
	victim, err := s.nic.NewConn(depths, s.told)
	if err != nil {
		t.Fatal(err)
	}
	if err = errors.Join(blocker.PostReceives(s.receives(0, 1)), victim.PostReceives(s.receives(0, 1))); err != nil {
		t.Fatal(err)
	}
	ids := m.ids()
	// One burst: the victim's entry is behind that of a handler that blocks.
	m.forge(rdma.Completion{ID: ids[0], QP: blocker.Local().QPN, Kind: rdma.DidRecv}, rdma.Completion{ID: ids[1], QP: victim.Local().QPN, Kind: rdma.DidRecv})
	<-entered
	begin := time.Now()
	if err := victim.Close(); err != nil {
		t.Error(err)
	}
	s.told.closed() // whatever comes now is a breach
	if took := time.Since(begin); took < 300*time.Millisecond || took > patience/2 {
		t.Errorf("Close took %v, it should have waited for the flush, and for the thread, a second or so", took)
	}
	close(leave)
	if err := blocker.Close(); err != nil {
		t.Error(err)
	}
}

// Two that close a Conn at the same time both find it closed when they return.
func TestCloseFromTwoSides(t *testing.T) {
	r := newRig(t, fakeverbs.Config{Attr: rdma.DeviceAttr{CQDepth: 40, CQs: 1}}, rdma.Config{}, rdma.ConnConfig{SendDepth: 20, RecvDepth: 20})
	r.exchange(t, 0)
	r.fabric.SetDelay(50 * mono.Millisecond)
	r.nic("a").Kill() // nothing is flushed: both wait
	if err := r.a.conn.Post([]rdma.SendWR{r.a.wr(r.b, 1, rdma.OpSend, true)}); err != nil {
		t.Fatal(err)
	}
	var closing sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		closing.Go(func() {
			errs[i] = r.a.conn.Close()
			r.a.told.closed()
		})
	}
	closing.Wait()
	for _, err := range errs[1:] {
		if fmt.Sprint(err) != fmt.Sprint(errs[0]) {
			t.Errorf("one Close says %v, another %v", errs[0], err)
		}
	}
	if n, _ := r.a.told.seen(); n != 2 {
		t.Errorf("%d completions of 2 posted", n)
	}
}

// A device that takes only a part of a burst: the Conn has failed, and the rest
// completes as flushed, behind what was posted.
func TestAPostThatTheDeviceRefuses(t *testing.T) {
	for taken := range 4 {
		t.Run(fmt.Sprint(taken, " of 4"), func(t *testing.T) {
			t.Parallel()
			f := fakeverbs.New(fakeverbs.Config{})
			m, s := open(t, f, rdma.Config{})
			peer, err := newSide(f.Host("b"), rdma.Config{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := peer.close(); err != nil {
					t.Error(err)
				}
			})
			if err = errors.Join(s.connection(small), peer.connection(small), join(s, peer)); err != nil {
				t.Fatal(err)
			}
			m.refuse = taken
			var wrs []rdma.SendWR
			for id := range uint32(4) {
				wrs = append(wrs, s.wr(peer, id, rdma.OpWrite, true))
			}
			if err := s.conn.Post(wrs); err != nil {
				t.Fatalf("%v, though each is owed its end", err)
			}
			until(t, "Failed", func() bool { return len(s.told.failures()) == 1 })
			if err := s.told.failures()[0]; !errors.Is(err, syscall.ENOMEM) {
				t.Errorf("failed with %v", err)
			}
			begin := time.Now()
			if err := s.conn.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); took >= 500*time.Millisecond {
				t.Errorf("Close waited %v for what was never posted", took)
			}
			for id, e := range s.told.sent {
				if e.id != uint32(id) || (e.err == nil) != (id < taken) {
					t.Errorf("%d of 4 taken, number %d: %d, %v", taken, id, e.id, e.err)
				}
			}
			if n := len(s.told.sent); n != 4 {
				t.Errorf("%d completions of 4", n)
			}
		})
	}
}

// A device that has stopped answers nothing, not even with a flush: Close waits
// for it half a second, ends the queue pair, and says flushed for all that is left.
func TestCloseWithoutAFlush(t *testing.T) {
	r := newRig(t, fakeverbs.Config{Delay: mono.Second}, rdma.Config{StuckAfter: mono.Second * 3600}, small)
	var wrs []rdma.SendWR
	for id := range uint32(8) {
		wrs = append(wrs, r.a.wr(r.b, id, rdma.OpWrite, id%2 == 1))
	}
	if err := r.a.conn.Post(wrs); err != nil {
		t.Fatal(err)
	}
	r.nic("a").Kill()
	begin := time.Now()
	if err := r.a.conn.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took < 400*time.Millisecond || took > patience/2 {
		t.Errorf("Close took %v", took)
	}
	for id, e := range r.a.told.sent {
		var status *rdma.StatusError
		if e.id != uint32(id) || !errors.As(e.err, &status) || status.Status != rdma.StatusFlushed {
			t.Errorf("number %d: %d, %v", id, e.id, e.err)
		}
	}
	if n := len(r.a.told.sent); n != 8 {
		t.Errorf("%d completions of 8", n)
	}
}
