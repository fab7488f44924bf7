package cuda_test

import (
	"testing"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/cuda/fakecuda"
	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/fakeverbs"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/loopback"
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
	b := newBuffers(r)
	r.driver.FailHost(1)
	done := make(chan ended, 1)
	before := r.gpu.Stats().Unpinned
	r.device.Launch(r.batch(0, 7, 1, b.Alloc, done))
	if e := r.await(done); e.err != nil {
		t.Error(e.err)
	}
	if r.pinned.Err() == nil || r.pinned.Bytes() != 0 || r.gpu.Stats().Unpinned == before {
		t.Errorf("%v, %d bytes pinned", r.pinned.Err(), r.pinned.Bytes())
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
	p := nic.NewPoolNear(-1, 64<<20, r.pinned)
	b, ok := p.Alloc(150_000)
	if !ok {
		t.Fatal(p.Err())
	}
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
	r.device.Close()
	if err := p.Close(); err != nil {
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
