package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// Ctrl-C while a part starts is said in words of its own; what else went wrong is not hidden by it.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	wrapped := fmt.Errorf("starting the etcd: %w", context.Canceled)
	if err := Interrupted(ctx, wrapped); err != wrapped {
		t.Errorf("before Ctrl-C: %v", err)
	}
	cancel()
	if err := Interrupted(ctx, wrapped); err == nil || err.Error() != "interrupted while it started" {
		t.Errorf("after it: %v", err)
	}
	other := errors.New("no such file")
	if err := Interrupted(ctx, other); err != other || Interrupted(ctx, nil) != nil {
		t.Errorf("another error: %v", err)
	}
}
