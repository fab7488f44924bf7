package drivertest

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/symphony-serving/symphony/backend/cuda"
)

// slack is how much of a device's memory may come and go behind our back.
const slack = 32 << 20

// testMemory: what is allocated is not free, and is free again afterwards.
func testMemory(t *testing.T, f Fixture) {
	const size = 128 << 20
	r := open(t, f)
	before, total, err := r.c.Memory()
	must(t, err)
	if before <= 0 || before > total || total > r.c.Info().Memory+slack {
		t.Fatalf("%d of %d bytes free, of a device with %d", before, total, r.c.Info().Memory)
	}
	p, err := r.c.Alloc(size)
	must(t, err)
	during, _, err := r.c.Memory()
	must(t, err)
	must(t, r.c.Free(p))
	after, _, err := r.c.Memory()
	must(t, err)
	if during > before-size+slack || after < before-slack {
		t.Errorf("free: %d before, %d with %d allocated, %d after", before, during, size, after)
	}
}

// testTooMuch: what does not fit is ErrMemory, and all goes on.
func testTooMuch(t *testing.T, f Fixture) {
	r := open(t, f)
	_, total, err := r.c.Memory()
	must(t, err)
	for _, n := range []int64{total + 1, 2 * total} {
		if p, err := r.c.Alloc(n); !errors.Is(err, cuda.ErrMemory) || errors.Is(err, cuda.ErrLost) {
			t.Errorf("Alloc(%d) with %d bytes: %#x, %v", n, total, p, err)
		}
	}
	for _, n := range []int64{0, -1} {
		if p, err := r.c.Alloc(n); err == nil {
			t.Errorf("Alloc(%d) = %#x", n, p)
		}
	}
	s, dev, in, out := r.stream(), r.alloc(4096), r.pinned(4096), r.pinned(4096)
	must(t, s.CopyIn(dev, pattern(in, 3)))
	must(t, s.CopyOut(out, dev))
	must(t, s.Synchronize())
	same(t, "after ErrMemory", out, in)
}

// testPinned: pinned memory begins at a page, has the length asked for, and is no less
// pinned in its middle.
func testPinned(t *testing.T, f Fixture) {
	r := open(t, f)
	s := r.stream()
	for _, n := range []int{1, 4095, 4097, 1<<20 + 3} {
		in, out, dev := r.pinned(n), r.pinned(n), r.alloc(int64(n))
		if len(in) != n || uintptr(unsafe.Pointer(&in[0]))%4096 != 0 {
			t.Fatalf("HostAlloc(%d): %d bytes at %p", n, len(in), &in[0])
		}
		half := n / 2
		must(t, s.CopyIn(dev, pattern(in, n)))
		must(t, s.CopyOut(out[half:], dev+cuda.Ptr(half)))
		must(t, s.CopyOut(out[:half], dev))
		must(t, s.Synchronize())
		same(t, "in halves", out, in)
	}
	for _, n := range []int{0, -1} {
		if _, err := r.c.HostAlloc(n); err == nil {
			t.Errorf("HostAlloc(%d) gave memory", n)
		}
	}
}

// testRegistered: memory that was there before is copied like pinned memory, and can be
// registered again once it is not.
func testRegistered(t *testing.T, f Fixture) {
	const size = 4 << 20
	r := open(t, f)
	m, free := outside(t, size)
	defer free()
	s, dev, out := r.stream(), r.alloc(size), r.pinned(size)
	for i := range 3 {
		must(t, r.c.HostRegister(m))
		must(t, s.CopyIn(dev, pattern(m, i)))
		must(t, s.CopyOut(out, dev))
		must(t, s.Synchronize())
		same(t, "from registered memory", out, m)
		clear(m)
		must(t, s.CopyOut(m[4096:8192], dev+4096))
		must(t, s.Synchronize())
		same(t, "into the middle of registered memory", m[4096:8192], out[4096:8192])
		must(t, r.c.HostUnregister(m))
	}
	if err := r.c.HostRegister(nil); err == nil {
		t.Error("no memory was registered")
	}
}

// testRegisteredTwice: what is pinned, whole, in part, or by allocation, is ErrRegistered,
// and stays usable.
func testRegisteredTwice(t *testing.T, f Fixture) {
	const size = 1 << 20
	r := open(t, f)
	m, free := outside(t, size)
	defer free()
	s, dev, out, allocated := r.stream(), r.alloc(size), r.pinned(size), r.pinned(size)
	must(t, r.c.HostRegister(m))
	for what, again := range map[string][]byte{"the same": m, "its end": m[size-8192:], "its beginning": m[:4096], "allocated": allocated} {
		if err := r.c.HostRegister(again); !errors.Is(err, cuda.ErrRegistered) {
			t.Errorf("registering %s again: %v", what, err)
		}
	}
	must(t, s.CopyIn(dev, pattern(m, 4)))
	must(t, s.CopyOut(out, dev))
	must(t, s.Synchronize())
	same(t, "after ErrRegistered", out, m)
	must(t, r.c.HostUnregister(m))
}

// testUnpinned: the call waits, so the memory may change as soon as it is back.
func testUnpinned(t *testing.T, f Fixture) {
	const size = 3<<20 + 1
	r := open(t, f)
	s, dev := r.stream(), r.alloc(size)
	in, want, out := make([]byte, size), make([]byte, size), make([]byte, size)
	for i := range 5 {
		must(t, s.CopyIn(dev, pattern(in, i)))
		pattern(want, i)
		clear(in)
		must(t, s.CopyOut(out, dev))
		same(t, "memory of Go", out, want)
	}
}
