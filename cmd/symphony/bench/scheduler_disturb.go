package bench

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/symphony-serving/symphony/transport/ring"
)

// The disturbance is a process of this same binary, since it must be none of the
// scheduler's threads. It ends when its standard input does, or with its parent.

// disturb keeps the second processor busy for a part of every 10 ms.
func disturb(part float64) error {
	signal.Ignore(os.Interrupt, syscall.SIGTERM) // Ctrl-C reaches the whole group; the parent decides
	runtime.LockOSThread()
	if err := ring.Pin(1); err != nil {
		return fmt.Errorf("processor 1: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end, or an error, is the end
		os.Exit(0)
	}()
	fmt.Println("ready")
	const period = 10 * time.Millisecond
	busy := time.Duration(part * float64(period))
	for {
		for began := time.Now(); time.Since(began) < busy; {
		}
		time.Sleep(period - busy)
	}
}

// startDisturber starts that process; end ends it.
func startDisturber(part float64) (end func() error, err error) {
	type started struct {
		*child
		err error
	}
	begun, done := make(chan started), make(chan struct{})
	go func() {
		runtime.LockOSThread() // see child
		c, err := startChild("bench", "scheduler", fmt.Sprintf("--disturb-child=%g", part))
		if err == nil { // it says one word when it has begun
			_, err = c.out.ReadByte()
		}
		begun <- started{c, err}
		<-done
	}()
	s := <-begun
	if s.err != nil {
		close(done)
		return nil, fmt.Errorf("the disturbing process: %w", s.err)
	}
	return func() error {
		defer close(done)
		return s.end()
	}, nil
}
