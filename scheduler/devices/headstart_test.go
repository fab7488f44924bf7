package devices

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Two GPUs, asked at 1.5 s: what ran since 0 s counts, of 3 s in all.
func TestCrowdedAndFull(t *testing.T) {
	const ms = mono.Millisecond
	for _, c := range []struct {
		name          string
		taken, lost   mono.Dur
		need          float64
		crowded, full bool
	}{
		{"nothing is lost", 3000 * ms, 0, 2, false, false},
		{"a little is", 3000 * ms, 4 * ms, 1.8, false, true},
		{"less than that", 3000 * ms, 2 * ms, 2, false, false},
		{"larger batches would do", 3000 * ms, 4 * ms, 1.7, false, false},
		{"a tenth is lost", 2800 * ms, 400 * ms, 1.7, true, false},
		{"both", 3000 * ms, 400 * ms, 2.5, true, true},
		{"a tenth is lost on idle GPUs", 2000 * ms, 400 * ms, 1, false, false},
	} {
		now := mono.Time(1500 * ms)
		all := Table{count: 2}
		all.demand.add(mono.Time(100*ms), wants{batches: 10, taken: c.taken, lost: c.lost})
		if _, crowded := all.Crowded(now); crowded != c.crowded {
			t.Errorf("%s: crowded %v", c.name, crowded)
		}
		if full := all.Full(c.need, now); full != c.full {
			t.Errorf("%s: full %v", c.name, full)
		}
	}
}
