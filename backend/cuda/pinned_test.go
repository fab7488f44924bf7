package cuda_test

import (
	"errors"
	"testing"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/fakeverbs"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/rdmalink"
	"github.com/symphony-serving/symphony/transport/tcp"
)

// buffers are batch buffers as the backend has them, on a network without RDMA.
type buffers struct{ *transport.Buffers }

func newBuffers(r *rig) buffers {
	return buffers{transport.BuffersFor(loopback.New(), -1, 64<<20, r.pinned)}
}

func (b buffers) close(t *testing.T) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

const chunkBytes = 4 << 20

// Buffers are pinned while the device lives, before and after; each chunk once.
func TestBuffersArePinned(t *testing.T) {
	defer leaks(t)
	r, o := prepare(t, config{})
	b := newBuffers(r)
	early := b.Alloc(100)
	if r.pinned.Bytes() != 0 || b.Bytes() != chunkBytes {
		t.Errorf("%d bytes pinned without a device, %d registered", r.pinned.Bytes(), b.Bytes())
	}
	var err error
	if r.device, _, err = cuda.NewDevice(r.open(), r.runtime, r.models, o); err != nil {
		t.Fatal(err)
	}
	late := b.Alloc(1 << 20)
	if r.pinned.Bytes() != 2*chunkBytes || r.driver.Counts().PinnedBytes < 2*chunkBytes {
		t.Errorf("%d bytes pinned, %+v", r.pinned.Bytes(), r.driver.Counts())
	}
	b.Free(early)
	b.Free(late)
	if again := b.Alloc(100); &again[0] != &early[0] || r.pinned.Bytes() != 2*chunkBytes {
		t.Error("a freed buffer is not used again")
	}
	r.device.Close()
	if r.pinned.Bytes() != 0 {
		t.Errorf("%d bytes pinned without a device", r.pinned.Bytes())
	}
	_ = b.Alloc(8 << 20) // after the device
	b.close(t)
	b.Free(late) // a link was late
	r.check()
}

// A pool that is closed before its device unpins its chunks itself.
func TestPoolClosesFirst(t *testing.T) {
	defer leaks(t)
	r := newRig(t, config{})
	b := newBuffers(r)
	b.Alloc(100)
	b.close(t)
	if n := r.pinned.Bytes(); n != 0 {
		t.Errorf("%d bytes pinned", n)
	}
	r.close()
}

// What cannot be pinned is used all the same, and said.
func TestUnpinnedBuffers(t *testing.T) {
	defer leaks(t)
	r := newRig(t, config{})
	var said []error
	r.pinned.Warn = func(err error) { said = append(said, err) }
	b := newBuffers(r)
	r.driver.FailHost(2)
	b.Alloc(chunkBytes) // the first chunk
	done := make(chan ended, 1)
	before := r.gpu.Stats().Unpinned
	r.device.Launch(r.batch(0, 7, 1, b.Alloc, done))
	if e := r.await(done); e.err != nil {
		t.Error(e.err)
	}
	if r.pinned.Err() == nil || r.pinned.Bytes() != 0 || r.gpu.Stats().Unpinned == before {
		t.Errorf("%v, %d bytes pinned", r.pinned.Err(), r.pinned.Bytes())
	}
	if len(said) != 1 || !errors.Is(said[0], cuda.ErrMemory) {
		t.Errorf("said: %v, want the first of the chunks", said)
	}
	r.device.Close()
	b.close(t)
	r.check()
}

// The same memory is known to an RDMA device and pinned for a GPU.
func TestPinnedAndRegistered(t *testing.T) {
	defer leaks(t)
	verbs := fakeverbs.New(fakeverbs.Config{})
	nic, err := rdma.Open(verbs.Host("pinned"), rdma.Config{GIDIndex: -1})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, config{})
	network := rdmalink.New(rdmalink.Config{TCP: tcp.New(), NIC: nic})
	p := transport.BuffersFor(transport.Mux{"tcp": network}, -1, 64<<20, r.pinned)
	b := p.Alloc(150_000)
	whole := b
	if _, known := nic.LocalKey(b); !known || r.pinned.Bytes() != chunkBytes {
		t.Errorf("known to the RDMA device: %v; %d bytes pinned", known, r.pinned.Bytes())
	}
	done := make(chan ended, 1)
	batch := r.batch(0, 16, 1, func(n int) []byte { m := b[:n:n]; b = b[n:]; return m }, done)
	before := r.gpu.Stats().Unpinned
	r.device.Launch(batch)
	if e := r.await(done); e.err != nil || r.gpu.Stats().Unpinned != before {
		t.Errorf("%v, %d copies were not of pinned memory", e.err, r.gpu.Stats().Unpinned-before)
	}
	p.Free(whole)
	p.Free(make([]byte, 10)) // of the heap, where the pool was used up
	r.device.Close()
	if err := errors.Join(p.Close(), network.Close()); err != nil {
		t.Error(err)
	}
	if err := nic.Close(); err != nil {
		t.Error(err)
	}
	r.check()
}

// Probe tells a device that works from one that does not, and leaves nothing open.
func TestProbe(t *testing.T) {
	defer leaks(t)
	d := fakecuda.New(fakecuda.Config{})
	if err := cuda.Probe(d, 0); err != nil {
		t.Error(err)
	}
	d.GPU(0).FailAllocs(1)
	if err := cuda.Probe(d, 0); err == nil || isLost(err) {
		t.Errorf("without memory: %v", err)
	}
	d.GPU(0).Vanish()
	if err := cuda.Probe(d, 0); !isLost(err) {
		t.Errorf("vanished: %v", err)
	}
	d.GPU(0).Return()
	if err := cuda.Probe(d, 0); err != nil {
		t.Error(err)
	}
	if left := d.Counts(); left != (fakecuda.Counts{}) {
		t.Errorf("left open: %+v", left)
	}
	for _, err := range d.Misused() {
		t.Error(err)
	}
}

// stuck is a context whose calls that pin, or unpin, do not come back before the test says so.
type stuck struct {
	cuda.Context
	pins, unpins chan struct{}
}

func (s *stuck) HostRegister(b []byte) error {
	<-s.pins
	return s.Context.HostRegister(b)
}

func (s *stuck) HostUnregister(b []byte) error {
	<-s.unpins
	return s.Context.HostUnregister(b)
}

// A driver that hangs while it pins hangs nobody; the buffer is used. What it may hold for
// ever is not unmapped.
func TestDriverHangsWhilePinning(t *testing.T) {
	defer leaks(t)
	d := fakecuda.New(fakecuda.Config{})
	c, err := d.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	s := &stuck{c, make(chan struct{}), make(chan struct{})}
	p := cuda.NewPinned()
	p.Attach(s)
	pool := transport.BuffersFor(loopback.New(), -1, 64<<20, p)
	b := pool.Alloc(100)
	if b[0] = 1; p.Bytes() != 0 || p.Err() == nil || pool.Bytes() != chunkBytes {
		t.Errorf("%d bytes pinned, %v, %d bytes of the pool", p.Bytes(), p.Err(), pool.Bytes())
	}
	close(s.pins)
	until(t, "it is pinned after all", func() bool { return d.Counts().Pinned == 1 })
	if err := pool.Close(); err == nil {
		t.Error("unmapped while it may be pinned")
	}
	b[0] = 2 // else a fault that ends the test
	close(s.unpins)
	until(t, "it is unpinned after all", func() bool { return d.Counts().Pinned == 0 })
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for _, err := range d.Misused() {
		t.Error(err)
	}
}
