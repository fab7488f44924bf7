package clockwork

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/workload"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew")

// TestVersion: some seconds of each figure's runs are what they were when Version was last
// raised.
func TestVersion(t *testing.T) {
	const file = "testdata/version.txt"
	head := fmt.Sprintf("Version %d\n", Version)
	got := head
	add := func(name string, w Whole, err error) {
		if err != nil {
			t.Fatal(err)
		}
		got += fmt.Sprintf("%s: arrived %d bad %d late %d cold %d loads %d max %.3f ms\n", name, w.Arrived, w.Bad, w.Late, w.Cold, w.Loads, w.Max)
	}
	for _, sys := range systems() {
		six, err := job6{System: sys.key, Quiet: 1, Growth: 20, Tail: 1, Seed: 1}.run(nil)
		add(sys.name+" fig6", six.All, err)
		trace, err := job8{System: sys.key, GPUs: 12, Mapping: workload.Striped, Rate: rate8, SLO: 100, Errors: true, Count: 4, Seed: 1}.run(nil)
		add(sys.name+" fig8", trace.All, err)
		closed, err := job5{System: sys.key, SLO: 50, Warmup: 1, Count: 3, Seed: 1}.run(nil)
		add(sys.name+" fig5", closed, err)
		beside, err := job7{System: sys.key, N: 6, Rate: 1200, SLO: 33, BatchModels: 12, Concurrency: 16, Warmup: 1, Count: 3, Seed: 1}.run(nil)
		beyond, berr := evenAt{even{System: sys.key, N: 12, SLO: 100, Warmup: 2, Count: 4, Seed: 1}, 6250}.run(nil)
		add(sys.name+" peaks", Whole{Arrived: int64(beyond.Offered * 4), Bad: int64((beyond.Offered - beyond.Served) * 4)}, berr)
		add(sys.name+" fig7", Whole{Arrived: int64(beside.BatchRate * 3), Bad: beside.Bad, Late: beside.Late}, err)
	}
	text, err := os.ReadFile(file)
	if err != nil && !*rewrite {
		t.Fatal(err)
	}
	if want := string(text); got != want && strings.HasPrefix(want, head) { // -rewrite must not hide it
		t.Fatalf("a simulation has another result than before: raise Version, then run this test with -rewrite\nit was %s\nnow %s", want, got)
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != string(text) {
		t.Errorf("Version is not that of %s: run this test with -rewrite", file)
	}
}
