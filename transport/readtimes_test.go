package transport

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

func TestReadClass(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 0, 1 << 10: 0, 1<<10 + 1: 1, 4 << 10: 1, 4<<10 + 1: 2, 16 << 10: 2, 150 << 10: 4, 256 << 10: 4, 1 << 20: 5,
		16 << 20: 7, 16<<20 + 1: 7, 1 << 40: 7} {
		if got := ReadClass(n); got != want {
			t.Errorf("%d bytes: class %d, want %d", n, got, want)
		}
	}
}

// The percentiles are those of the last 256 of a class; old ones are forgotten.
func TestReadClock(t *testing.T) {
	var c ReadClock
	for range 1000 {
		c.Add(100, mono.Second)
	}
	for i := range readsKept {
		c.Add(100, mono.Dur(i+1))
	}
	c.Add(150<<10, 7)
	var st LinkStats
	c.Stats(&st)
	if got, want := st.Reads[0], (ReadTimes{Samples: readsKept, P50: readsKept/2 + 1, P99: readsKept - 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := st.Reads[4]; got != (ReadTimes{Samples: 1, P50: 7, P99: 7}) {
		t.Errorf("%+v", got)
	}
}
