package engine

import (
	"math"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
)

// The need is that of the rate, and is told while requests come; it ends with them.
func TestStatsTellTheNeed(t *testing.T) {
	d := newDevices(1, 0)
	e, _ := start(t, Config{GPUsMax: 8}, d, 2, 4)
	defer e.Stop()
	const rate = 400 // of each model
	want := 2 * batching.Need(line(t, 1, 4), 60*mono.Millisecond, rate/1e9)
	got := 0.0
	for range 20 {
		offer(e, 2, 2*rate, 500*time.Millisecond)
		if got = e.Stats().Need; math.Abs(got-want) < 0.4*want {
			break
		}
	}
	if math.Abs(got-want) > 0.4*want {
		t.Errorf("need %.2f, want about %.2f", got, want)
	}
	d.wait()
	if got := e.rank.stats.needBy(mono.Now().Add(2 * needSilence)); got != 0 {
		t.Errorf("need %.2f after a long silence", got)
	}
}
