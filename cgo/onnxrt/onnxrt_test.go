//go:build cgo

package onnxrt

import (
	"encoding/binary"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// action reads and sets a signal's handler as the kernel has it: past Go, as a library does.
// The handler is the first word of the kernel's struct, the flags are the next.
func action(t *testing.T, s unix.Signal, set []byte) []byte {
	t.Helper()
	old := make([]byte, 64)
	var to unsafe.Pointer
	if set != nil {
		to = unsafe.Pointer(&set[0])
	}
	const maskSize = 8
	if _, _, errno := unix.Syscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(to), uintptr(unsafe.Pointer(&old[0])), maskSize, 0, 0); errno != 0 {
		t.Fatal(errno)
	}
	return old
}

// Handlers that a library sets while it is loaded are put back; what Go sets stays.
func TestKeepSignals(t *testing.T) {
	const theirs, ours = unix.SIGUSR1, unix.SIGUSR2
	before := action(t, theirs, nil)
	came := make(chan os.Signal, 1)
	taken, err := KeepSignals(func() error {
		ignore := append([]byte(nil), before...)
		binary.NativeEndian.PutUint64(ignore, 1) // SIG_IGN
		action(t, theirs, ignore)
		signal.Notify(came, ours)
		return errors.New("kept")
	})
	defer signal.Stop(came)
	if err == nil || err.Error() != "kept" || len(taken) != 1 || taken[0] != theirs {
		t.Errorf("taken: %v, %v", taken, err)
	}
	if after := action(t, theirs, nil); string(after[:16]) != string(before[:16]) {
		t.Errorf("the handler is %x, was %x", after[:16], before[:16])
	}
	if err := unix.Kill(os.Getpid(), ours); err != nil {
		t.Fatal(err)
	}
	select {
	case <-came:
	case <-time.After(30 * time.Second):
		t.Error("Go's own handler is gone")
	}
}

func TestPreload(t *testing.T) {
	if err := Preload([]string{"libm.so.6"}); err != nil {
		t.Skip(err) // another C library
	}
	missing := filepath.Join(t.TempDir(), "libcublas.so.13")
	if err := Preload([]string{"libm.so.6", missing}); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("%v", err)
	}
}

// Another version of onnxruntime_go, with other fields, is told and not guessed at.
func TestHandleOf(t *testing.T) {
	type inner struct{ o *int }
	type outer struct {
		s *inner
		n int
	}
	n := 1
	if at, err := handleOf(&outer{s: &inner{&n}}, "s", "o"); err != nil || at != unsafe.Pointer(&n) {
		t.Errorf("%v, %v", at, err)
	}
	for _, path := range [][]string{{"x"}, {"s", "x"}, {"s", "o", "x"}, {"n"}, {"n", "o"}} {
		if _, err := handleOf(&outer{s: &inner{&n}}, path...); !errors.Is(err, ErrVersion) {
			t.Errorf("%v: %v", path, err)
		}
	}
	if _, err := handleOf(&outer{}, "s", "o"); !errors.Is(err, ErrVersion) {
		t.Errorf("nil: %v", err)
	}
	if _, err := handleOf((*outer)(nil), "s"); !errors.Is(err, ErrVersion) {
		t.Errorf("nil: %v", err)
	}
}
