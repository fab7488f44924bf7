package profiler

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/warmup"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// counting is a Device whose runs take what length says, without taking it.
type counting struct {
	length func(size int) mono.Dur
	sizes  []int // of runs, in their order
	spent  mono.Dur
}

func (d *counting) Launch(b *executor.Batch) {
	l := d.length(b.Size)
	d.sizes = append(d.sizes, b.Size)
	d.spent += l
	b.Finish(0, mono.Time(l), nil)
}
func (*counting) Close() {}

// Whatever runs take, a measurement keeps to its budget, but for the first run and what a size takes
// longer than smaller ones say; and no size of the profile is less than a run of it, or of a smaller
// one, took.
func TestMeasureKeepsItsBudget(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		alpha, beta := mono.Dur(random.ExpFloat64()*float64(20*mono.Millisecond)), mono.Dur(random.ExpFloat64()*float64(20*mono.Millisecond))
		maxBatch, budget := 1+random.IntN(64), mono.Dur(random.IntN(2000))*mono.Millisecond+1
		d := &counting{length: func(b int) mono.Dur { return 1 + beta + alpha*mono.Dur(b) }}
		r, err := Measure(t.Context(), d, 0, spec(maxBatch), Options{Budget: budget})
		if err != nil {
			t.Fatal(err)
		}
		if d.spent > budget && len(d.sizes) > 1 {
			t.Errorf("l(b) = %v b + %v, up to %d: %v spent in %d runs, of a budget of %v", alpha, beta, maxBatch, d.spent, len(d.sizes), budget)
		}
		if d.sizes[0] != 1 {
			t.Errorf("the first run is a batch of %d", d.sizes[0])
		}
		for b := 1; b <= maxBatch; b++ {
			if got, is := r.Profile.Latency(b), d.length(b); got < is-mono.Dur(b) {
				t.Errorf("l(b) = %v b + %v: l(%d) is %v, and told as %v; not measured were %v of %v", alpha, beta, b, is, got, r.Estimated, Sizes(maxBatch))
			}
		}
	}
}

// A model of 10 s a run has a profile after one run.
func TestMeasureOneRun(t *testing.T) {
	d := &counting{length: func(b int) mono.Dur { return 10 * mono.Second * mono.Dur(b) }}
	r, err := Measure(t.Context(), d, 0, spec(4), Options{Budget: 1500 * mono.Millisecond})
	if err != nil || len(d.sizes) != 1 || r.Profile.Latency(1) != 10*mono.Second || r.Profile.Latency(4) != 40*mono.Second || !slices.Equal(r.Estimated, []int{2, 3, 4}) {
		t.Errorf("%v after batches of %v: %+v", err, d.sizes, r)
	}
}

// Where there is no time for all sizes, those are measured that leave little to be guessed.
func TestVisits(t *testing.T) {
	sizes := Sizes(32)
	var order []int
	for _, i := range visits(sizes) {
		order = append(order, sizes[i])
	}
	if want := []int{1, 2, 4, 8, 17, 32, 3, 5, 6, 10, 13, 22, 29}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
}

// No batch is run that would take longer than others can wait, and each size that is not run is
// estimated; a first run that is too long stays the only one.
func TestMeasureNoLongerThanOthersCanWait(t *testing.T) {
	for most, want := range map[mono.Dur]int{50 * mono.Millisecond: 5, 10 * mono.Millisecond: 1, 9 * mono.Millisecond: 1} {
		d := &counting{length: func(b int) mono.Dur { return 10 * mono.Millisecond * mono.Dur(b) }}
		r, err := Measure(t.Context(), d, 0, spec(8), Options{Longest: func() mono.Dur { return most }})
		if err != nil || slices.Max(d.sizes) != want || r.Profile.Latency(8) != 80*mono.Millisecond || len(r.Estimated) == 0 {
			t.Errorf("%v: others can wait %v, batches of %d were run; %+v", err, most, slices.Max(d.sizes), r)
		}
		if most < 10*mono.Millisecond && len(d.sizes) != 1 {
			t.Errorf("others can wait %v, and there were %d runs", most, len(d.sizes))
		}
	}
}

// never is a Device whose runs do not end.
type never struct{}

func (never) Launch(*executor.Batch) {}
func (never) Close()                 {}

func TestMeasureHangs(t *testing.T) {
	if _, err := Measure(t.Context(), never{}, 0, spec(1), Options{Hang: mono.Millisecond}); !errors.Is(err, ErrHang) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Measure(ctx, never{}, 0, spec(1), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// refusing is a Device whose model takes numbers from least on, and notes them.
type refusing struct {
	least int64
	seen  []int64
}

func (d *refusing) Launch(b *executor.Batch) {
	for _, item := range b.Inputs {
		v := int64(binary.LittleEndian.Uint64(item))
		d.seen = append(d.seen, v)
		if v < d.least {
			b.Finish(0, 1, errors.New("indices element out of data bounds"))
			return
		}
	}
	b.Finish(0, mono.Time(b.Size), nil)
}
func (*refusing) Close() {}

// A model that refuses zeros is measured on numbers that it takes, and the result says which; where
// the setting says the inputs it is measured on no others.
func TestMeasureOnInputsThatAreTaken(t *testing.T) {
	v := []catalog.TensorSpec{{Name: "id", Type: catalog.Int64}}
	m := &catalog.ModelSpec{Name: "m", Version: "1", MaxBatch: 2, Inputs: v, Outputs: v}
	d := &refusing{least: 1000}
	r, err := Measure(t.Context(), d, 0, m, Options{})
	if err != nil || r.Inputs.String() != "inputs of 1000" || slices.Min(d.seen[4:]) != 1000 {
		t.Errorf("%v; seen %v", err, d.seen)
	}
	d = &refusing{least: 1 << 20}
	if _, err := Measure(t.Context(), d, 0, m, Options{}); err == nil || !strings.Contains(err.Error(), "warm-up run on zeros failed") || !strings.Contains(err.Error(), "set warmup in config.yaml") {
		t.Errorf("%v", err)
	}
	set := &warmup.Setting{Inputs: map[string]warmup.Input{"id": {Random: []float64{1 << 20, 1<<20 + 9}}}}
	o := Options{Inputs: set.Make(v, nil, func(field, format string, args ...any) { t.Errorf(field+format, args...) })}
	d.seen = nil
	if r, err = Measure(t.Context(), d, 0, m, o); err != nil || slices.Min(d.seen) < 1<<20 {
		t.Errorf("%v; seen %v", err, d.seen)
	}
	key, _ := storedKey(t)
	key.Warmup = o.Inputs.Print()
	if _, err := Write(key, r); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(key); err != nil {
		t.Error(err)
	}
	var other *Mismatch
	key.Warmup = ""
	if _, err := Read(key); !errors.As(err, &other) || other.Field != "warmup" {
		t.Errorf("with another setting: %v", err)
	}
}
