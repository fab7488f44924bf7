package bench

import (
	"context"
	"testing"
	"time"
)

// An interrupted run counts what had passed by then, however long it drains.
func TestCountedUntil(t *testing.T) {
	c := loadCmd{Warmup: 10 * time.Millisecond, Duration: time.Hour}
	ctx, cancel := context.WithCancel(t.Context())
	counted := c.countedUntil(ctx)
	if got := counted(); got != time.Hour {
		t.Errorf("not interrupted: %v counted", got)
	}
	start := time.Now()
	counted = c.countedUntil(ctx)
	time.Sleep(30 * time.Millisecond)
	cancel()
	time.Sleep(time.Second) // a drain
	if got := counted(); got < 20*time.Millisecond || got > time.Since(start)-500*time.Millisecond {
		t.Errorf("interrupted 20 ms after the warm-up: %v counted", got)
	}
	c.Warmup = time.Hour
	if got := c.countedUntil(ctx)(); got > 0 {
		t.Errorf("interrupted in the warm-up: %v counted", got)
	}
}
