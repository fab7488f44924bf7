package cuda

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// A ladder rises from 1 to the largest batch, and no batch runs half as large again.
func TestLadder(t *testing.T) {
	for _, c := range []struct {
		max  int
		want []int
	}{{1, []int{1}}, {2, []int{1, 2}}, {3, []int{1, 2, 3}}, {5, []int{1, 2, 3, 4, 5}}, {32, []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32}},
		{33, []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 33}}} {
		if got := Ladder(c.max); !slices.Equal(got, c.want) {
			t.Errorf("Ladder(%d) is %v, want %v", c.max, got, c.want)
		}
	}
	for most := 1; most <= profile.BatchMax; most++ {
		sizes := Ladder(most)
		if !slices.IsSorted(sizes) || len(slices.Compact(slices.Clone(sizes))) != len(sizes) || sizes[len(sizes)-1] != most || len(sizes) > 21 {
			t.Fatalf("Ladder(%d) is %v", most, sizes)
		}
		for n := 1; n <= most; n++ {
			if r := RoundUp(sizes, n); r < n || 2*r >= 3*n+n%2 && r > n || r != sizes[index(sizes, n)] {
				t.Fatalf("of at most %d, a batch of %d runs as %d", most, n, r)
			}
		}
		if RoundUp(sizes, most+1) != 0 {
			t.Fatalf("a batch of %d of at most %d", most+1, most)
		}
	}
}

// Each batch takes what the size does that it runs as.
func TestSteps(t *testing.T) {
	sizes := Ladder(13)
	var samples []profile.Sample
	for _, b := range sizes {
		samples = append(samples, profile.Sample{Batch: b, Latency: mono.Dur(b) * mono.Millisecond})
	}
	p, err := Steps(samples)
	if err != nil || p.MaxBatch() != 13 {
		t.Fatal(p, err)
	}
	for b := 1; b <= 13; b++ {
		if want := mono.Dur(RoundUp(sizes, b)) * mono.Millisecond; p.Latency(b) != want {
			t.Errorf("l(%d) is %v, want %v", b, p.Latency(b), want)
		}
	}
	for _, bad := range [][]profile.Sample{nil, {{Batch: 2, Latency: 1}, {Batch: 2, Latency: 1}}, {{Batch: 1, Latency: 0}}, {{Batch: 1025, Latency: 1}}} {
		if _, err := Steps(bad); !errors.Is(err, profile.ErrInvalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// What is gathered is tensor by tensor, and scattered it is what it was.
func TestLayout(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	specs := []catalog.TensorSpec{{Type: catalog.Int64, Shape: []int64{3}}, {Type: catalog.Uint8, Shape: []int64{5}}, {Type: catalog.FP32, Shape: []int64{100}}}
	l := layoutOf(specs, 7)
	if l.item != 24+5+400 || l.bytes != 256+256+2816 || !slices.Equal(l.pointers(1<<20), []Ptr{1 << 20, 1<<20 + 256, 1<<20 + 512}) {
		t.Errorf("%+v", l)
	}
	for n := 1; n <= 7; n++ {
		items, staged, back := make([]byte, n*l.item), make([]byte, n*l.item), make([]byte, n*l.item)
		for i := range items {
			items[i] = byte(r.Uint32())
		}
		l.gather(staged, items, n)
		for i := range n {
			at := 0
			for k, tensor := range l.tensors {
				if !bytes.Equal(staged[at+i*tensor.item:at+(i+1)*tensor.item], items[i*l.item+tensor.from:i*l.item+tensor.from+tensor.item]) {
					t.Fatalf("tensor %d of item %d of %d is elsewhere", k, i, n)
				}
				at += n * tensor.item
			}
		}
		l.scatter(back, staged, n)
		if !bytes.Equal(back, items) {
			t.Errorf("%d items are others after the way there and back", n)
		}
	}
}
