package rdma_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/fakeverbs"
)

// Every goroutine of a NIC ends with it: the whole package leaves none.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for what must happen on a machine that does other things, too.
const patience = 10 * time.Second

// until waits for something that must happen.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > patience {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// witness is a Handler that notes what it is told, and that nobody tells it
// two things at a time, or anything once its Conn is closed.
type witness struct {
	onReceived func(id uint32) // may be nil; on the polling thread

	busy sync.Mutex

	mu       sync.Mutex // Guards what follows.
	sent     []ending
	received []arrival
	failed   []error
	turns    int
	over     bool // Close has returned
	broken   []error
}

type ending struct {
	id  uint32
	err error
}

type arrival struct {
	id, imm uint32
	n       int
	written bool
	err     error
}

// note runs f as one call of the handler.
func (w *witness) note(f func()) {
	alone := w.busy.TryLock()
	if alone {
		defer w.busy.Unlock()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !alone {
		w.broken = append(w.broken, errors.New("two calls at a time"))
	}
	if w.over {
		w.broken = append(w.broken, errors.New("a call after Close"))
	}
	f()
}

func (w *witness) Sent(id uint32, err error) {
	w.note(func() { w.sent = append(w.sent, ending{id, err}) })
}

func (w *witness) Received(id uint32, n int, imm uint32, written bool, err error) {
	w.note(func() { w.received = append(w.received, arrival{id, imm, n, written, err}) })
	if w.onReceived != nil {
		w.onReceived(id)
	}
}

func (w *witness) Failed(err error) { w.note(func() { w.failed = append(w.failed, err) }) }
func (w *witness) Turn()            { w.note(func() { w.turns++ }) }

// closed says that Close has returned.
func (w *witness) closed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}

// seen is how many sends and receives are over.
func (w *witness) seen() (sent, received int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sent), len(w.received)
}

// failures are the errors of Failed.
func (w *witness) failures() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]error(nil), w.failed...)
}

// faults are the breaches of the Handler's contract.
func (w *witness) faults() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.failed) > 1 {
		return fmt.Errorf("failed %d times: %w", len(w.failed), errors.Join(w.failed...))
	}
	return errors.Join(w.broken...)
}

// side is one end: a NIC with registered memory, and a Conn on it.
type side struct {
	nic    *rdma.NIC
	mem    []byte
	region rdma.Region
	conn   *rdma.Conn
	told   *witness
}

const (
	sideMemory = 64 << 10
	chunk      = 256 // of the memory, for each work request
)

// newSide opens a NIC and its memory.
func newSide(v rdma.Verbs, c rdma.Config) (*side, error) {
	c.GIDIndex = -1
	nic, err := rdma.Open(v, c)
	if err != nil {
		return nil, err
	}
	s := &side{nic: nic, told: &witness{}}
	if s.mem, err = rdma.Map(sideMemory, -1); err == nil {
		s.region, err = nic.Register(s.mem, rdma.LocalWrite|rdma.RemoteWrite|rdma.RemoteRead)
	}
	return s, err
}

// connection makes the side's Conn.
func (s *side) connection(c rdma.ConnConfig) (err error) {
	c.Access = rdma.LocalWrite | rdma.RemoteWrite | rdma.RemoteRead
	s.conn, err = s.nic.NewConn(c, s.told)
	return err
}

// close ends all of the side, and says what was wrong at any time.
func (s *side) close() error {
	var errs []error
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
		s.told.closed()
	}
	return errors.Join(append(errs, s.told.faults(), s.region.Close(), s.nic.Close(), rdma.Unmap(s.mem))...)
}

// sge is a piece of the side's memory.
func (s *side) sge(at uint32) rdma.SGE {
	at = at * chunk % sideMemory
	return rdma.SGE{Addr: rdma.AddressOf(s.mem[at:]), Length: chunk, LKey: s.region.LKey()}
}

// wr is one work request to the peer.
func (s *side) wr(peer *side, id uint32, op rdma.Opcode, signalled bool) rdma.SendWR {
	return rdma.SendWR{ID: uint64(id), Op: op, SGEs: [2]rdma.SGE{s.sge(id)}, NumSGE: 1, Signaled: signalled,
		Remote: rdma.AddressOf(peer.mem), RKey: peer.region.RKey(), Imm: id}
}

// receives are n receives with IDs from first on.
func (s *side) receives(first, n uint32) []rdma.RecvWR {
	var wrs []rdma.RecvWR
	for id := first; id < first+n; id++ {
		wrs = append(wrs, rdma.RecvWR{ID: uint64(id), SGE: s.sge(id)})
	}
	return wrs
}

// join connects two sides' Conns.
func join(a, b *side) error {
	return errors.Join(a.conn.Connect(b.conn.Local()), b.conn.Connect(a.conn.Local()))
}

// rig is two joined sides on a fabric.
type rig struct {
	fabric *fakeverbs.Fabric
	a, b   *side
}

// newRig's parts are closed, and counted, at the test's end.
func newRig(t *testing.T, f fakeverbs.Config, c rdma.Config, depths rdma.ConnConfig) *rig {
	t.Helper()
	r := &rig{fabric: fakeverbs.New(f)}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	r.a, err = newSide(r.fabric.Host("a"), c)
	must(err)
	r.b, err = newSide(r.fabric.Host("b"), c)
	must(err)
	must(r.a.connection(depths))
	must(r.b.connection(depths))
	must(join(r.a, r.b))
	t.Cleanup(func() {
		if err := errors.Join(r.a.close(), r.b.close()); err != nil {
			t.Error(err)
		}
		checkOpen(t, r.fabric)
	})
	return r
}

// checkOpen wants that nothing is open any more.
func checkOpen(t *testing.T, f *fakeverbs.Fabric) {
	t.Helper()
	if open := f.Open(); open != (fakeverbs.Counts{}) {
		t.Errorf("left open: %+v", open)
	}
}

// nic is the fabric's thing that breaks.
func (r *rig) nic(host string) *fakeverbs.NIC { return r.fabric.Host(host).NIC("fake0") }

// exchange sends one message from a to b and waits for both to know.
func (r *rig) exchange(t *testing.T, id uint32) {
	t.Helper()
	if err := r.b.conn.PostReceives(r.b.receives(id, 1)); err != nil {
		t.Fatal(err)
	}
	sent, _ := r.a.told.seen()
	_, received := r.b.told.seen()
	if err := r.a.conn.Post([]rdma.SendWR{r.a.wr(r.b, id, rdma.OpSend, true)}); err != nil {
		t.Fatal(err)
	}
	until(t, "a message", func() bool {
		s, _ := r.a.told.seen()
		_, n := r.b.told.seen()
		return s == sent+1 && n == received+1
	})
}
