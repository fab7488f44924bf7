package clockwork

import (
	"fmt"
	"os"
	"testing"
)

func TestDev(t *testing.T) {
	var seeds []uint64
	for _, f := range os.Args {
		_ = f
	}
	seeds = []uint64{101}
	if os.Getenv("DEVSEEDS") != "" {
		seeds = []uint64{101, 102, 103}
	}
	steps := []int{0, 1, 2, 3, 4, 5, 6, 8, 11}
	for _, c := range scenes7() {
		for _, k := range steps {
			for _, seed := range seeds {
				j := job7{System: ours, N: 6, Rate: 1200, SLO: sloFirst7 * multiple(k), BatchModels: c.models, Concurrency: c.concurrency, Warmup: 1, Count: 5, Seed: seed}
				f, err := j.run(nil)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Printf("%-24s %6.2f ms seed %d: satisfied %.5f late %d batch %.1f r/s busyLS %.4f part %.4f bad %d\n", c.name, j.SLO, seed, f.Satisfied, f.Late, f.BatchRate, f.BusyLS, f.BusyBatch/(1-f.BusyLS), f.Bad)
			}
		}
	}
}
