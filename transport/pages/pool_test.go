package pages_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"github.com/symphony-serving/symphony/transport/pages"
)

// device notes what it is told in a list that devices share, and may refuse.
type device struct {
	name  string
	notes *[]string
	in    error
	out   error
	knows map[*byte]int
}

func (d *device) Register(chunk []byte) error {
	*d.notes = append(*d.notes, fmt.Sprintf("%s in %d", d.name, len(chunk)>>20))
	if d.in == nil {
		d.knows[unsafe.SliceData(chunk)]++
	}
	return d.in
}

func (d *device) Unregister(chunk []byte) error {
	*d.notes = append(*d.notes, fmt.Sprintf("%s out %d", d.name, len(chunk)>>20))
	d.knows[unsafe.SliceData(chunk)]--
	if d.out == nil {
		chunk[0] = 1 // it is still mapped
	}
	return d.out
}

func two() (a, b *device, notes *[]string) {
	notes = new([]string)
	return &device{name: "a", notes: notes, knows: map[*byte]int{}}, &device{name: "b", notes: notes, knows: map[*byte]int{}}, notes
}

// Each chunk is told to each device once, and taken back before it is unmapped, the last
// device first.
func TestDevicesKnowChunks(t *testing.T) {
	a, b, notes := two()
	p := pages.NewPool(-1, 64<<20, a, b)
	first, ok := p.Alloc(1 << 20)
	if _, ok2 := p.Alloc(1 << 20); !ok || !ok2 {
		t.Fatal("no two pieces")
	}
	large, ok := p.Alloc(8 << 20)
	if !ok || p.Bytes() != 12<<20 {
		t.Fatalf("%v, %d bytes", ok, p.Bytes())
	}
	for _, piece := range [][]byte{first, large, large[100:200]} {
		if !p.Holds(piece) {
			t.Error("a piece is not the pool's")
		}
	}
	if p.Holds(make([]byte, 10)) || p.Holds(nil) {
		t.Error("it holds what is not its own")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	want := []string{"a in 4", "b in 4", "a in 8", "b in 8", "b out 4", "a out 4", "b out 8", "a out 8"}
	if !slices.Equal(*notes, want) {
		t.Errorf("%v, want %v", *notes, want)
	}
	if err := p.Close(); err != nil || p.Bytes() != 0 || len(*notes) != len(want) {
		t.Errorf("a second Close: %v, %d bytes, %v", err, p.Bytes(), *notes)
	}
}

// A device that refuses a chunk: there is none, and the others forget it.
func TestDeviceRefuses(t *testing.T) {
	a, b, notes := two()
	b.in = errors.New("full")
	p := pages.NewPool(-1, 64<<20, a, b)
	if _, ok := p.Alloc(1); ok {
		t.Error("where from?")
	}
	if !errors.Is(p.Err(), b.in) || !slices.Equal(*notes, []string{"a in 4", "b in 4", "a out 4"}) || p.Bytes() != 0 {
		t.Errorf("%v, %v, %d bytes", p.Err(), *notes, p.Bytes())
	}
	for _, n := range a.knows {
		if n != 0 {
			t.Error("a device still knows the chunk")
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// A chunk that a device does not let go stays mapped: it may yet write there.
func TestDeviceHolds(t *testing.T) {
	a, b, _ := two()
	a.out = errors.New("it hangs")
	p := pages.NewPool(-1, 64<<20, a, b)
	piece, _ := p.Alloc(1 << 20)
	if err := p.Close(); !errors.Is(err, a.out) {
		t.Error(err)
	}
	piece[0] = 2 // else a fault that ends the test
}
