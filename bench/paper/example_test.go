package paper

import (
	"context"
	"math"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// TestRelayHandsOver: from R16 on the other scheduler decides, on all three
// GPUs, and no request is lost between the two.
func TestRelayHandsOver(t *testing.T) {
	got, picture, err := exampleThen(Eager)
	if err != nil {
		t.Fatal(err)
	}
	if first := got.settled(mono.Time(11*mono.Millisecond), mono.Time(12*mono.Millisecond)); len(first) != 1 || first[0].Size != 1 {
		t.Errorf("batches after the gap %v, want R16 alone: eager does not wait", first)
	}
	used := map[int]bool{}
	for _, b := range got.settled(mono.Time(12*mono.Millisecond), mono.Never) {
		used[b.GPU] = true
	}
	if len(used) != exampleGPUs {
		t.Errorf("GPUs %v after the change, want all", used)
	}
	if n := len(got.batchOf) + len(got.dropped); n != 61 || len(picture.Requests) != 61 {
		t.Errorf("%d requests answered, %d drawn, want 61", n, len(picture.Requests))
	}
}

// TestEpochsAddUp: each arrival is in one epoch, and GPU time is split at the
// epochs' ends.
func TestEpochsAddUp(t *testing.T) {
	m := Model{Name: "ResNet50", Alpha: 1.053, Beta: 5.072, SLO: 25}
	j := changingJob{System: Symphony, GPUs: 8, Seconds: 4, Epoch: 0.5, Seed: 1,
		Models: []changingModel{{m, 4000, "step:0s=0.5,2s=1"}, {m, 100, "step:1s=0,2s=1"}}}
	r, err := j.run(nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Arrived) != 8 {
		t.Fatalf("%d epochs", len(r.Arrived))
	}
	for k := range r.Arrived {
		want := 1000.0
		if k >= 4 {
			want = 2000
		}
		if a := float64(r.Arrived[k][0]); math.Abs(a-want) > 5*math.Sqrt(want) {
			t.Errorf("epoch %d: %g arrivals, want about %g", k, a, want)
		}
		if (k == 2 || k == 3) != (r.Arrived[k][1] == 0) {
			t.Errorf("epoch %d: %d arrivals of the second model, which pauses in the second second", k, r.Arrived[k][1])
		}
		if r.Served[k][0] > r.Arrived[k][0] || r.Served[k][0] < r.Arrived[k][0]*97/100 {
			t.Errorf("epoch %d: %d served of %d", k, r.Served[k][0], r.Arrived[k][0])
		}
		if r.Busy[k] <= 0 || r.Busy[k] > float64(r.Used[k]) || r.Used[k] > j.GPUs {
			t.Errorf("epoch %d: %g GPUs busy, %d used", k, r.Busy[k], r.Used[k])
		}
	}
}

// TestLeast: the number found passes, one less does not.
func TestLeast(t *testing.T) {
	s := newSession(t, context.Background(), t.TempDir())
	w := resnet(1)
	got, err := s.Leasts([]LeastJob{{System: Symphony, Workload: w, Rate: 5000, Seeds: []uint64{1, 2}, Seconds: 3}})
	if err != nil {
		t.Fatal(err)
	}
	r := got[0]
	if len(r.Each) != 2 || r.GPUs != max(r.Each[0], r.Each[1]) || r.GPUs < r.Bound || r.GPUs > 9 {
		t.Fatalf("%+v", r)
	}
	k := leastSearch{LeastJob{System: Symphony, Workload: w, Rate: 5000, Seconds: 3, Warmup: warmupDefault}, 1}
	for gpus, want := range map[int]bool{r.Each[0]: true, r.Each[0] - 1: false} {
		if ok, err := k.passes(gpus, nil); err != nil || ok != want {
			t.Errorf("%d GPUs pass: %v, want %v; %v", gpus, ok, want, err)
		}
	}
}

// TestSamples: few samples keep the histogram's shares.
func TestSamples(t *testing.T) {
	got := samples([]int64{0, 1_000_000, 0, 3_000_000}, 0.1)
	if len(got) != samplesMax {
		t.Fatalf("%d samples", len(got))
	}
	low := 0
	for _, v := range got {
		if v == 0.1 {
			low++
		}
	}
	if low != samplesMax/4 {
		t.Errorf("%d of %d samples have the value of a quarter", low, len(got))
	}
	if got := samples([]int64{0, 2, 1}, 1); len(got) != 3 || got[2] != 2 {
		t.Errorf("samples %v of three", got)
	}
	if got := samples(nil, 1); len(got) != 0 {
		t.Errorf("samples %v of nothing", got)
	}
}
