package backend

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// The last runs are read once each, in order; recording one allocates nothing.
func TestRan(t *testing.T) {
	var r ran
	var got []mono.Dur
	read := func(from uint64) uint64 {
		got = got[:0]
		return r.since(from, func(size int, took mono.Dur) {
			if size != int(took)%1024+1 {
				t.Errorf("%v of a batch of %d", took, size)
			}
			got = append(got, took)
		})
	}
	add := func(from, to int) {
		for i := from; i < to; i++ {
			r.add(i%1024+1, mono.Dur(i))
		}
	}
	add(0, 3)
	at := read(0)
	if len(got) != 3 || got[0] != 0 || got[2] != 2 || at != 3 {
		t.Errorf("%v, on from %d", got, at)
	}
	if at = read(at); len(got) != 0 {
		t.Errorf("%v were read before", got)
	}
	add(3, 3+2*ranKept)
	if at = read(at); len(got) != ranKept || got[ranKept-1] != 2+2*ranKept {
		t.Errorf("%d of many: %v", len(got), got)
	}
	if n := testing.AllocsPerRun(100, func() { r.add(8, mono.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
