package devices

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Two GPUs, asked at 1.5 s: what ran since 0 s counts, of 3 s in all.
func TestCrowdedAndFull(t *testing.T) {
	const ms = mono.Millisecond
	for _, c := range []struct {
		name             string
		taken, lost, own mono.Dur // by all, by all, by the model; which took 500 ms
		crowded, full    bool
	}{
		{"nothing is lost", 3000 * ms, 0, 0, false, false},
		{"a little is", 3000 * ms, 4 * ms, 1 * ms, false, true},
		{"less than that", 3000 * ms, 2 * ms, 1 * ms, false, false},
		{"of the others alone", 3000 * ms, 4 * ms, 0, false, false},
		{"GPUs are idle now and then", 2800 * ms, 4 * ms, 1 * ms, false, false},
		{"a tenth is lost", 2800 * ms, 400 * ms, 100 * ms, true, false},
		{"both", 3000 * ms, 400 * ms, 100 * ms, true, true},
		{"a tenth is lost on idle GPUs", 2000 * ms, 400 * ms, 100 * ms, false, false},
	} {
		now := mono.Time(1500 * ms)
		all, u := Table{count: 2}, Usage{}
		all.demand.add(mono.Time(100*ms), wants{batches: 10, taken: c.taken, lost: c.lost})
		u.demand.add(mono.Time(100*ms), wants{batches: 2, taken: 500 * ms, lost: c.own})
		if _, crowded := all.Crowded(now); crowded != c.crowded {
			t.Errorf("%s: crowded %v", c.name, crowded)
		}
		if full := all.Full(&u, now); full != c.full {
			t.Errorf("%s: full %v", c.name, full)
		}
	}
}
