package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// ErrTold is of a report that says itself why the exit status is 1: main adds no word.
var ErrTold = errors.New("")

// Told is the error of a run whose report, which went to to, says what failed. Where the
// report went to a file or a pipe, main says it, too.
func Told(to io.Writer, failed string) error {
	if f, ok := to.(*os.File); ok && !IsTerminal(f) {
		return errors.New(failed)
	}
	return ErrTold
}

// InUse adds to the error of a listener whose port is taken which flag sets another.
func InUse(err error, flag string) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	return fmt.Errorf("%w; is another server running there? %s sets another address", err, flag)
}

// Interrupted says of a start that Ctrl-C ended that it did; other errors stay as they are.
func Interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return errors.New("interrupted while it started")
	}
	return err
}
