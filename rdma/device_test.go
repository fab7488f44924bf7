package rdma_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/cgo/verbs"
	"github.com/symphony-serving/symphony/rdma"
)

// TestDeviceConn is the short story of two Conns on a device of the kernel: sends
// and READs complete once and in order, an idle NIC sleeps, and what is outstanding
// when the peer is gone ends in errors. The long stories are told on rdma/fakeverbs,
// which passes the same suite as the devices do (rdma/verbstest).
func TestDeviceConn(t *testing.T) {
	a, b := deviceSide(t), deviceSide(t)
	t.Cleanup(func() {
		if err := errors.Join(a.close(), b.close()); err != nil {
			t.Error(err)
		}
	})
	depths := rdma.ConnConfig{SendDepth: 64, RecvDepth: 64}
	if err := errors.Join(a.connection(depths), b.connection(depths), join(a, b), b.conn.PostReceives(b.receives(0, 32))); err != nil {
		t.Fatal(err)
	}
	r := rig{a: a, b: b}
	for id := range uint32(20) {
		r.exchange(t, 100+id)
	}
	for i := range b.mem {
		b.mem[i] = byte(i >> 8)
	}
	wrs := []rdma.SendWR{a.wr(b, 200, rdma.OpRead, false), a.wr(b, 201, rdma.OpRead, false), a.wr(b, 202, rdma.OpRead, true)}
	if err := a.conn.Post(wrs); err != nil {
		t.Fatal(err)
	}
	until(t, "three READs", func() bool { n, _ := a.told.seen(); return n == 23 })

	before := a.nic.PollStats()
	time.Sleep(500 * time.Millisecond)
	if after := a.nic.PollStats(); after.Polls-before.Polls > 50 {
		t.Errorf("an idle NIC has polled %d times in half a second", after.Polls-before.Polls)
	}

	b.conn.Fail(errors.New("enough"))
	if err := a.conn.Post([]rdma.SendWR{a.wr(b, 300, rdma.OpRead, false), a.wr(b, 301, rdma.OpSend, true)}); err != nil {
		t.Fatal(err)
	}
	until(t, "the failure", func() bool { return len(a.told.failures()) == 1 })
	until(t, "what was outstanding", func() bool { n, _ := a.told.seen(); return n == 25 })
	for i, s := range a.told.sent {
		if want := i >= 23; (s.err != nil) != want {
			t.Errorf("send %d (number %d): %v", s.id, i, s.err)
		}
	}
}

// deviceSide is one end on a device of the kernel. Without a device the test is skipped,
// and fails where one was promised (make test-rdma promises).
func deviceSide(t *testing.T) *side {
	t.Helper()
	s, err := newSide(verbs.New(), rdma.Config{})
	switch {
	case err == nil:
		return s
	case os.Getenv("SYMPHONY_REQUIRE_RDMA") != "":
		t.Fatalf("no RDMA device, though SYMPHONY_REQUIRE_RDMA is set: %v", err)
	default:
		t.Skipf("no RDMA device: %v", err)
	}
	return nil
}
