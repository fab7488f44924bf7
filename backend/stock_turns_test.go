package backend

import (
	"context"
	"testing"
	"time"
)

// One measures at a time; one that takes long keeps the next waiting no further, but no more than
// longMost go on beside it; all turns come back.
func TestTurns(t *testing.T) {
	turns := newTurns()
	within := func(limit time.Duration) (func(), error) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return turns.take(ctx, time.Hour)
	}
	var leaves []func()
	for range longMost + 1 {
		leave, err := turns.take(t.Context(), time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
	}
	if _, err := within(20 * time.Millisecond); err == nil {
		t.Fatalf("%d that take long, and one more", longMost+1)
	}
	for _, leave := range leaves {
		leave()
	}
	for range 3 {
		leave, err := within(20 * time.Second)
		if err != nil {
			t.Fatal("a turn is lost")
		}
		if _, err := within(20 * time.Millisecond); err == nil {
			t.Fatal("two have the turn")
		}
		leave()
	}
	if len(turns.now) != 0 || len(turns.long) != 0 {
		t.Errorf("%d and %d turns are not given back", len(turns.now), len(turns.long))
	}
}
