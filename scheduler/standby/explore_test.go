package standby_test

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/invariants"
)

var (
	exploreSeeds = flag.Int("explore.seeds", 0, "histories that TestExplore lives through (0: a few)")
	exploreFirst = flag.Uint64("explore.first", 1, "seed of the first")
	exploreTrace = flag.Bool("explore.trace", false, "tell what happens: for one seed")
)

// Schedulers, backends and frontends go through random histories of failures, and what the
// checkers say holds: see package standby's rules.
func TestExplore(t *testing.T) {
	seeds := *exploreSeeds
	if seeds == 0 {
		if seeds = 400; invariants.Enabled {
			seeds = 15
		}
	}
	var next, steps atomic.Uint64
	var mu sync.Mutex
	var sum tally
	began := time.Now()
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= uint64(seeds) || t.Failed() {
					return
				}
				w := newWorld(*exploreFirst+i, plantNone)
				if *exploreTrace {
					w.trace = func(s string) { fmt.Println(s) }
				}
				w.explore()
				steps.Add(uint64(w.steps))
				if w.broken != "" {
					t.Error(w.broken)
				}
				mu.Lock()
				sum.add(&w.check.tally)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d seeds from %d on, %d steps, %v: %+v", seeds, *exploreFirst, steps.Load(), time.Since(began).Round(time.Millisecond), sum)
	if !t.Failed() && (sum.served == 0 || sum.again == 0 || sum.planned == 0) {
		t.Errorf("the histories show nothing: %+v", sum)
	}
}

// What the checkers are for: each bug that is put in is found.
func TestPlantedBugsAreFound(t *testing.T) {
	seeds := uint64(10000)
	if invariants.Enabled {
		seeds = 20 // slow: the rest is for a build without
	}
	for _, c := range []struct {
		name string
		bug  plant
		says string
	}{
		{"a promise is not kept: backends take orders of a reign that was overtaken", plantPromiseBroken, "and has promised"},
		{"reigns are reused: numbers, lives and clocks do not tell members apart", plantReignReused, "is used by lives"},
		{"stale state is taken: a promise of another reign counts", plantStaleTaken, "which that has not promised"},
		{"stale state is taken: what runs of the reign before is not heeded", plantRunningIgnored, "runs twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			steps := 0
			for seed := uint64(1); seed <= seeds; seed++ {
				w := newWorld(seed, c.bug)
				w.explore()
				if steps += w.steps; w.broken != "" {
					if !strings.Contains(w.broken, c.says) {
						t.Errorf("found as another one: %s", w.broken)
					}
					t.Logf("found after %d seeds, %d steps: %s", seed, steps, w.broken)
					return
				}
			}
			if invariants.Enabled {
				t.Skipf("not in %d histories", seeds)
			}
			t.Errorf("not found in %d histories", seeds)
		})
	}
}
