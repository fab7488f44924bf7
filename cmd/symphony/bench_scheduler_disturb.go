package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	type started struct {
		cmd *exec.Cmd
		in  io.WriteCloser
		err error
	}
	begun, done := make(chan started), make(chan struct{})
	go func() {
		runtime.LockOSThread() // the kernel ends the process with the thread that started it
		cmd := exec.Command(self, "bench", "scheduler", fmt.Sprintf("--disturb-child=%g", part))
		cmd.Stderr, cmd.SysProcAttr = os.Stderr, endWithParent()
		in, err := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if err = errors.Join(err, err2); err == nil {
			err = cmd.Start()
		}
		if err == nil { // it says one word when it has begun
			_, err = io.ReadFull(out, make([]byte, 1))
		}
		begun <- started{cmd, in, err}
		<-done
	}()
	s := <-begun
	if s.err != nil {
		close(done)
		return nil, fmt.Errorf("the disturbing process: %w", s.err)
	}
	return func() error {
		defer close(done)
		s.in.Close()
		kill := time.AfterFunc(endMax, func() { _ = s.cmd.Process.Kill() }) // ended by itself: fine
		defer kill.Stop()
		return s.cmd.Wait()
	}, nil
}
