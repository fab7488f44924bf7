package profiler

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/backend/emugpu"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

func spec(maxBatch int) *catalog.ModelSpec {
	v := []catalog.TensorSpec{{Name: "x", Type: catalog.FP32, Shape: []int64{4}}}
	return &catalog.ModelSpec{Name: "m", Version: "1", MaxBatch: maxBatch, Inputs: v, Outputs: v}
}

func TestSizes(t *testing.T) {
	for maxBatch, want := range map[int][]int{1: {1}, 2: {1, 2}, 4: {1, 2, 3, 4}, 16: {1, 2, 3, 4, 5, 6, 8, 10, 13, 16}} {
		if got := Sizes(maxBatch); !slices.Equal(got, want) {
			t.Errorf("Sizes(%d) = %v, want %v", maxBatch, got, want)
		}
	}
}

// exact is a Device that takes what its profile says, to the nanosecond.
type exact struct{ *profile.Profile }

func (d exact) Launch(b *executor.Batch) {
	start := mono.Now()
	b.Finish(start, start.Add(d.Latency(b.Size)), nil)
}
func (exact) Close() {}

// The profile of a device is found.
func TestMeasureFindsTheProfile(t *testing.T) {
	p, err := profile.Linear(300*mono.Microsecond, 2*mono.Millisecond, 8)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	r, err := Measure(context.Background(), exact{p}, 0, spec(8), Options{Warmup: 1, Rounds: 3,
		Progress: func(int, int, Point) { seen++ }})
	if err != nil {
		t.Fatal(err)
	}
	if r.Line.Alpha != 300*mono.Microsecond || r.Line.Beta != 2*mono.Millisecond || r.Profile.Latency(7) != p.Latency(7) || seen != len(Sizes(8)) {
		t.Errorf("line %+v, l(7) = %v, %d reports of progress", r.Line, r.Profile.Latency(7), seen)
	}
}

// On a ladder only its sizes are measured, and the profile has steps.
func TestMeasureLadder(t *testing.T) {
	p, err := profile.Linear(300*mono.Microsecond, 2*mono.Millisecond, 8)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Measure(context.Background(), exact{p}, 0, spec(8), Options{Warmup: 1, Rounds: 3, Ladder: []int{1, 4, 8}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Points) != 3 || r.Profile.Latency(2) != p.Latency(4) || r.Profile.Latency(5) != p.Latency(8) || r.Profile.MaxBatch() != 8 {
		t.Errorf("%d points, l(2) = %v, l(5) = %v", len(r.Points), r.Profile.Latency(2), r.Profile.Latency(5))
	}
	if !r.IsLine() {
		t.Errorf("a line was not seen: %+v", r.Line)
	}
	r.Points[1].Median *= 2
	if err := r.finish(); err != nil || r.IsLine() {
		t.Errorf("%+v is no line, %v", r.Line, err)
	}
}

// An emulated device takes at least what it was made with.
func TestMeasureEmulated(t *testing.T) {
	p, err := profile.Linear(300*mono.Microsecond, 2*mono.Millisecond, 8)
	if err != nil {
		t.Fatal(err)
	}
	clock := emugpu.NewClock(1)
	defer clock.Close()
	r, err := Measure(context.Background(), clock.NewDevice([]*profile.Profile{p}, 0), 0, spec(8), Options{Warmup: 1, Rounds: 3})
	if err != nil {
		t.Fatal(err)
	}
	if l := r.Profile.Latency(7); l < p.Latency(7) || l > p.Latency(7)+mono.Second {
		t.Errorf("l(7) = %v, made with %v", l, p.Latency(7))
	}
}

// failing is a Device whose runs fail.
type failing struct{}

func (failing) Launch(b *executor.Batch) { b.Finish(0, 1, errors.New("no memory")) }
func (failing) Close()                   {}

func TestMeasureFails(t *testing.T) {
	if _, err := Measure(context.Background(), failing{}, 0, spec(2), Options{}); err == nil {
		t.Error("a failing model was measured")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Measure(ctx, failing{}, 0, spec(2), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
