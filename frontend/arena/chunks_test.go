package arena

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// fillUp takes slabs of n bytes until there are no more.
func fillUp(t rapid.TB, a *Arena, n int) (all []wire.SlabHandle) {
	t.Helper()
	for {
		h, _, err := a.Alloc(n)
		if errors.Is(err, ErrFull) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
}

// An arena that was full of one size holds as many of any other when those are gone.
func TestMemoryReturns(t *testing.T) {
	const size = 37 << 20 // blocks of all levels: 2 of 16 chunks, 1 of 4, 1
	want := map[int]int{1 << 10: size >> 10, 150 << 10: size >> 18, 1 << 20: 37, 4 << 20: 9, 16 << 20: 2}
	a := open(t, size)
	for before := range want {
		for _, h := range fillUp(t, a, before) {
			a.Free(h)
		}
		for n, most := range want {
			all := fillUp(t, a, n)
			if len(all) != most {
				t.Errorf("after %d bytes each: %d inputs of %d bytes, want %d", before, len(all), n, most)
			}
			for _, h := range all {
				a.Free(h)
			}
			check(t, a)
		}
	}
}

// One slab that stays costs its own chunk, not the others.
func TestOneSlabStays(t *testing.T) {
	a := open(t, 8<<20)
	all := fillUp(t, a, 1000)
	for _, h := range all[1:] {
		a.Free(h)
	}
	if got := len(fillUp(t, a, 1<<20)); got != 7 {
		t.Errorf("%d slabs of 1 MiB beside one of 1 KiB in 8 MiB, want 7", got)
	}
}

// Memory that moves between sizes at each call is moved without allocating.
func TestMovingAllocatesNothing(t *testing.T) {
	a := open(t, 17<<20)
	sizes := []int{1, 5000, 20000, 200000, 1 << 20, 3 << 20, 16 << 20, 16 << 20, 100}
	if n := testing.AllocsPerRun(1000, func() {
		for _, n := range sizes {
			h, _, err := a.Alloc(n)
			if err != nil {
				t.Fatal(err)
			}
			a.Free(h)
		}
	}); n != 0 {
		t.Errorf("%v allocs, want 0", n)
	}
}

// check counts: each chunk belongs to one free block, one class or nobody's inside.
func check(t rapid.TB, a *Arena) {
	t.Helper()
	c := &a.chunks
	owner := make([]string, len(c.all))
	own := func(n uint32, level int, who string) {
		for k := n; k < n+1<<(2*level); k++ {
			if owner[k] != "" {
				t.Fatalf("chunk %d is %s and %s", k, owner[k], who)
			}
			owner[k] = who
		}
	}
	for level, l := range c.blocks {
		for n := l.first; n != 0; n = c.all[n].next {
			if k := c.all[n]; !k.free || int(k.level) != level || (n-1)%(1<<(2*level)) != 0 {
				t.Fatalf("chunk %d of the free blocks of level %d: %+v", n, level, k)
			}
			own(n, level, "free")
		}
	}
	held := 0
	for class := range classes {
		if n := c.idle[class]; n != 0 {
			own(n, levelOf(class), "idle")
		}
		for n := c.room[class].first; n != 0; n = c.all[n].next {
			if k := c.all[n]; int(k.class) != class || k.held <= 0 || k.held >= slabsOf(class) {
				t.Fatalf("chunk %d has room for class %d: %+v", n, class, k)
			}
			own(n, levelOf(class), "with room")
			held += int(c.all[n].held)
		}
	}
	for i := range a.slabs { // what is left is of full chunks
		if s := &a.slabs[i]; s.used || s.freed {
			n := uint32(i/unitsPerChunk) + 1
			if k := &c.all[n]; owner[n] == "" && k.held == slabsOf(int(k.class)) {
				own(n, levelOf(int(k.class)), "full")
				held += int(k.held)
			}
		}
	}
	if i := slices.Index(owner[1:], ""); i >= 0 {
		t.Fatalf("chunk %d is nobody's", i+1)
	}
	if held != a.held {
		t.Fatalf("chunks hold %d slabs, the arena %d", held, a.held)
	}
}

// life is one input of the property test, past or present.
type life struct {
	ref    wire.SlabRef
	id     wire.RequestID
	fill   byte
	pins   int
	freed  bool
	direct []byte // of its bytes, what a device has READ and not yet the header
}

// world is an arena under random calls, and what must be so.
type world struct {
	a     *Arena
	lives []*life // also some that are long over
	next  wire.RequestID
}

func (w *world) alloc(t *rapid.T, n int) {
	h, b, err := w.a.Alloc(n)
	if errors.Is(err, ErrFull) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	w.next++
	l := &life{id: w.next, fill: byte(w.next * 31), ref: transport.SlabRef(h, b, 1)}
	for _, at := range spots(b) {
		b[at] = l.fill
	}
	for _, o := range w.lives {
		if o.ref.Handle == h {
			t.Fatalf("handle %x was given before", h)
		}
		if (!o.freed || o.pins > 0) && o.ref.Address < l.ref.Address+uint64(l.ref.Length) && l.ref.Address < o.ref.Address+uint64(o.ref.Length) {
			t.Fatalf("slabs of requests %d and %d overlap", o.id, l.id)
		}
	}
	w.a.SetRequest(h, l.id)
	w.lives = append(w.lives, l)
}

// bytes are what lies where a life's slab was, as a device sees it.
func (w *world) bytes(l *life) []byte {
	from := l.ref.Address - transport.SlabRef(0, w.a.memory, 1).Address
	return w.a.memory[from : from+uint64(l.ref.Length)]
}

// header is the end of a one-sided READ: it counts only when the header says so.
func (w *world) header(t *rapid.T, l *life) {
	h := wire.DecodeSlabHeader(w.a.mapped[int(l.ref.Handle.Index())*wire.SlabHeaderSize:])
	if holds := h.Holds(l.ref, l.id); holds == l.freed {
		t.Fatalf("request %d, freed %v: its header says %+v", l.id, l.freed, h)
	} else if holds && !filled(l.direct, l.fill) {
		t.Fatalf("request %d: a READ passed for valid that has another's bytes", l.id)
	}
	l.direct = nil
}

// end frees the slab, or unpins it once: also of lives that are over.
func (w *world) end(t *rapid.T, l *life, unpin bool) {
	if !unpin {
		w.a.Free(l.ref.Handle)
		l.freed = true
	} else if l.pins > 0 {
		if !filled(w.bytes(l), l.fill) {
			t.Fatalf("request %d: its bytes changed under a pin", l.id)
		}
		w.a.Unpin(l.ref)
		l.pins--
	}
}

// spots are the bytes that are looked at: all of them would take long.
func spots(b []byte) [3]int { return [3]int{0, len(b) / 2, len(b) - 1} }

// filled reports whether the bytes are still those of a life.
func filled(b []byte, fill byte) bool {
	return !slices.ContainsFunc(sample(b), func(x byte) bool { return x != fill })
}

func sample(b []byte) (out []byte) {
	for _, at := range spots(b) {
		out = append(out, b[at])
	}
	return out
}

// Chunks that change their size: slabs never overlap, handles never repeat, bytes stay
// while anybody holds them, and no READ of an earlier life passes, neither by its handle
// nor one-sided, whatever lies between its two parts. At the end all memory is free.
func TestMovingMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, err := New(int64(rapid.IntRange(1, 22).Draw(t, "chunks"))<<20, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		w := &world{a: a}
		any := func() *life { return w.lives[rapid.IntRange(0, len(w.lives)-1).Draw(t, "life")] }
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 6).Draw(t, "op"); {
			case op == 0 || len(w.lives) == 0:
				class := rapid.IntRange(0, classes-1).Draw(t, "class")
				if size := smallest << (2 * class); size <= len(a.memory) {
					w.alloc(t, rapid.IntRange(max(1, size/4+1), size).Draw(t, "bytes"))
				}
			case op == 1: // a run of one size
				for class := rapid.IntRange(0, 5).Draw(t, "class"); rapid.IntRange(0, 7).Draw(t, "more") > 0; {
					w.alloc(t, smallest<<(2*class))
				}
			case op == 2:
				l := any()
				if _, err := a.Pin(l.ref, l.id); (err != nil) != l.freed {
					t.Fatalf("request %d, freed %v: pin %v", l.id, l.freed, err)
				} else if err == nil {
					l.pins++
				}
			case op == 3:
				l := any()
				l.direct = sample(w.bytes(l))
			case op == 4:
				if l := any(); l.direct != nil {
					w.header(t, l)
				}
			default:
				w.end(t, any(), op == 5)
			}
			check(t, a)
		}
		for _, l := range w.lives {
			for w.end(t, l, false); l.pins > 0; {
				w.end(t, l, true)
			}
		}
		check(t, a)
		if n := len(fillUp(t, a, 1<<20)); n != len(a.memory)>>20 {
			t.Fatalf("%d of %d MiB are free at the end", n, len(a.memory)>>20)
		}
	})
}
