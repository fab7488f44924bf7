package nice

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// f runs with its niceness, and nobody after it.
func TestRun(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("threads have no priorities here")
	}
	at := func() int {
		n, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		if err != nil {
			t.Error(err)
		}
		return 20 - n // as the system call has it
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, during := at(), 0
	Run(Most, func() { during = at() })
	if during != Most || at() != before {
		t.Errorf("niceness %d, then %d, then %d", before, during, at())
	}
}
