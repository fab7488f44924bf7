package results

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// Results stand in the order of their jobs, however many are done at a time; progress ends with all.
func TestEach(t *testing.T) {
	jobs := make([]int, 100)
	for i := range jobs {
		jobs[i] = i
	}
	for _, parallel := range []int{0, 1, 7, 200} {
		var told strings.Builder
		out, err := Each(t.Context(), Jobs{What: "squares", Parallel: parallel, Progress: &told}, jobs, func(i int, _ func() bool) (int, error) { return i * i, nil })
		if err != nil || !slices.IsSorted(out) || out[99] != 99*99 || !strings.Contains(told.String(), "squares: 100 of 100 after") {
			t.Errorf("%d at a time: %v, %v, told %q", parallel, out, err, told.String())
		}
	}
}

// A job that fails ends the others; Ctrl-C is an error of its own.
func TestEachEnds(t *testing.T) {
	bad := errors.New("bad")
	var done atomic.Int64
	run := func(i int, stop func() bool) (int, error) {
		done.Add(1)
		if i == 3 {
			return 0, bad
		}
		return i, nil
	}
	if _, err := Each(t.Context(), Jobs{}, make([]int, 1000), run); err != nil {
		t.Error(err)
	}
	done.Store(0)
	if _, err := Each(t.Context(), Jobs{}, []int{1, 2, 3, 4, 5, 6}, run); !errors.Is(err, bad) || done.Load() != 3 {
		t.Errorf("%v after %d", err, done.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Each(ctx, Jobs{}, []int{1}, run); !errors.Is(err, ErrInterrupted) {
		t.Error(err)
	}
}
