package arena

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

func open(t *testing.T, size int64) *Arena {
	t.Helper()
	a, err := New(size, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

// A random walk: what is written stays until it is freed and unpinned, stale
// handles are refused, and at the end every slab is free.
func TestRandomWalk(t *testing.T) {
	const seed = 5
	r := rand.New(rand.NewPCG(seed, 0))
	a := open(t, 4<<20)
	type life struct {
		ref  wire.SlabRef
		id   wire.RequestID
		fill byte
		pins [][]byte
		gone bool
	}
	var lives []*life
	for step := range 20000 {
		switch k := r.IntN(4); {
		case k == 0:
			n := 1 + r.IntN(5000)
			h, b, err := a.Alloc(n)
			if errors.Is(err, ErrFull) {
				continue
			}
			l := &life{ref: wire.SlabRef{Handle: h, Length: uint32(n)}, id: wire.RequestID(step + 1), fill: byte(step)}
			for i := range b {
				b[i] = l.fill
			}
			a.SetRequest(h, l.id)
			lives = append(lives, l)
		case len(lives) == 0:
		case k == 1:
			l := lives[r.IntN(len(lives))]
			b, err := a.Pin(l.ref, l.id)
			if l.gone != errors.Is(err, transport.ErrStale) {
				t.Fatalf("seed %d step %d: pin of a slab, gone %v: %v", seed, step, l.gone, err)
			}
			if err == nil {
				l.pins = append(l.pins, b)
			}
		case k == 2:
			l := lives[r.IntN(len(lives))]
			a.Free(l.ref.Handle)
			l.gone = true
		default:
			i := r.IntN(len(lives))
			l := lives[i]
			for _, b := range l.pins {
				if b[0] != l.fill || b[len(b)-1] != l.fill {
					t.Fatalf("seed %d step %d: a pinned slab was overwritten", seed, step)
				}
				a.Unpin(l.ref)
			}
			l.pins = nil
			if l.gone {
				lives = append(lives[:i], lives[i+1:]...)
			}
		}
	}
	for _, l := range lives {
		a.Free(l.ref.Handle)
		for range l.pins {
			a.Unpin(l.ref)
		}
	}
	if a.Used() != 0 || a.held != 0 {
		t.Fatalf("seed %d: %d used, %d held", seed, a.Used(), a.held)
	}
	check(t, a)
}

func TestPinChecksRequestAndLength(t *testing.T) {
	a := open(t, 1<<20)
	h, _, err := a.Alloc(100)
	if err != nil {
		t.Fatal(err)
	}
	ref := wire.SlabRef{Handle: h, Length: 100}
	if _, err := a.Pin(ref, 0); !errors.Is(err, transport.ErrStale) {
		t.Errorf("a slab that is being written was served: %v", err)
	}
	a.SetRequest(h, 7)
	if _, err := a.Pin(ref, 7); err != nil {
		t.Fatal(err)
	}
	a.Unpin(ref)
	for name, try := range map[string]func() ([]byte, error){
		"other request": func() ([]byte, error) { return a.Pin(ref, 8) },
		"longer":        func() ([]byte, error) { return a.Pin(wire.SlabRef{Handle: h, Length: 101}, 7) },
		"no such slab":  func() ([]byte, error) { return a.Pin(wire.SlabRef{Handle: 1 << 20, Length: 100}, 7) },
	} {
		if _, err := try(); !errors.Is(err, transport.ErrStale) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLimits(t *testing.T) {
	a := open(t, 1<<20)
	if _, _, err := a.Alloc(Largest + 1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	if _, _, err := a.Alloc(2 << 20); !errors.Is(err, ErrTooLarge) {
		t.Errorf("larger than the arena: %v", err)
	}
	n := 0
	for {
		if _, _, err := a.Alloc(1 << 10); err != nil {
			break
		}
		n++
	}
	if n != 1024 {
		t.Errorf("%d slabs of 1 KiB in 1 MiB", n)
	}
}

// Close while others hold slabs: their bytes stay until they let go, nobody
// gets new ones, and then the memory is gone.
func TestCloseWaitsForHolders(t *testing.T) {
	a := open(t, 1<<20)
	h, bytes, err := a.Alloc(100)
	if err != nil {
		t.Fatal(err)
	}
	a.SetRequest(h, 1)
	ref := wire.SlabRef{Handle: h, Length: 100}
	pinned, err := a.Pin(ref, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	bytes[0] = 7 // a fault here kills the test
	if _, _, err := a.Alloc(1); !errors.Is(err, ErrClosed) {
		t.Errorf("Alloc after Close: %v", err)
	}
	a.Free(h)
	if pinned[0] != 7 || a.memory == nil {
		t.Error("unmapped under a pin")
	}
	a.Unpin(ref)
	if a.memory != nil {
		t.Error("not unmapped with the last Unpin")
	}
	a.Free(h)
	a.Unpin(ref) // late ones find nothing
}

// Writers, readers and late readers at once, Close in the midst: a reader
// sees one life's bytes or ErrStale.
func TestConcurrent(t *testing.T) {
	a := open(t, 2<<20)
	var wait sync.WaitGroup
	for g := range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for i := range 3000 {
				if g == 0 && i == 2500 {
					a.Close()
				}
				h, b, err := a.Alloc(1 + r.IntN(20000))
				if err != nil {
					continue
				}
				for k := range b {
					b[k] = byte(h)
				}
				id := wire.RequestID(g<<32 | i + 1)
				a.SetRequest(h, id)
				ref := wire.SlabRef{Handle: h, Length: uint32(len(b))}
				pinned, err := a.Pin(ref, id)
				if err != nil {
					t.Errorf("goroutine %d: own slab: %v", g, err)
					return
				}
				a.Free(h)
				if _, err := a.Pin(ref, id); err == nil {
					t.Errorf("goroutine %d: a freed slab was served", g)
				}
				if pinned[0] != byte(h) || pinned[len(pinned)-1] != byte(h) {
					t.Errorf("goroutine %d: pinned bytes changed", g)
				}
				a.Unpin(ref)
			}
		}()
	}
	wait.Wait()
	if a.Used() != 0 || a.memory != nil {
		t.Errorf("%d used, unmapped %v", a.Used(), a.memory == nil)
	}
}

// BenchmarkAllocFree is a request's slab: the only one there is, or one of some.
func BenchmarkAllocFree(b *testing.B) {
	for name, others := range map[string]int{"alone": 0, "beside others": 100} {
		b.Run(name, func(b *testing.B) {
			a, err := New(1<<20, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer a.Close()
			for range others {
				if _, _, err := a.Alloc(1000); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				h, _, _ := a.Alloc(1000)
				a.Free(h)
			}
		})
	}
}

// Bytes are the slab's own, for as long as it is held.
func TestBytes(t *testing.T) {
	a := open(t, 1<<20)
	h, bytes, err := a.Alloc(100)
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Bytes(h); len(got) != 100 || &got[0] != &bytes[0] {
		t.Errorf("%d bytes at %p, want 100 at %p", len(got), got, bytes)
	}
	a.Free(h)
	if got := a.Bytes(h); got != nil {
		t.Errorf("%d bytes of a slab that is free", len(got))
	}
	if got := a.Bytes(0); got != nil {
		t.Errorf("%d bytes of no slab", len(got))
	}
}
