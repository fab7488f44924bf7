//go:build cgo

package onnx

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Close of a session that runs beside its device does not wait for it, nor closes it: its last
// user does, once.
func TestLease(t *testing.T) {
	var l lease
	if err := l.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := l.take(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("two have it: %v", err)
	}
	next := make(chan error)
	go func() { next <- l.take(t.Context()) }()
	l.give()
	if err := <-next; err != nil {
		t.Fatal(err)
	}
	closed := 0
	l.whenFree(func() { closed++ })
	if closed != 0 {
		t.Fatal("closed in use")
	}
	if err := l.take(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("it is closed: %v", err)
	}
	l.give()
	if err := l.take(t.Context()); closed != 1 || !errors.Is(err, errClosed) {
		t.Errorf("closed %d times: %v", closed, err)
	}
	var free lease
	if free.whenFree(func() { closed++ }); closed != 2 {
		t.Error("nobody has it, and it is not closed")
	}
}
