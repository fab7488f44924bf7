package arena

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

func open(t *testing.T, size int64) *Arena {
	t.Helper()
	a, err := New(size)
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
			l := &life{ref: wire.SlabRef{Handle: h, Length: uint32(n)}, id: wire.RequestID(step), fill: byte(step)}
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
	free := 0
	for _, f := range a.free {
		free += len(f)
	}
	if a.Used() != 0 || free != len(a.slabs) {
		t.Fatalf("seed %d: %d used, %d of %d free", seed, a.Used(), free, len(a.slabs))
	}
}

func TestPinChecksRequestAndLength(t *testing.T) {
	a := open(t, 1<<20)
	h, _, err := a.Alloc(100)
	if err != nil {
		t.Fatal(err)
	}
	ref := wire.SlabRef{Handle: h, Length: 100}
	if _, err := a.Pin(ref, 0); err != nil {
		t.Fatal(err) // request 0 is what a fresh slab has
	}
	a.SetRequest(h, 7)
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
	if _, _, err := a.Alloc(2 << 20); !errors.Is(err, ErrFull) {
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
