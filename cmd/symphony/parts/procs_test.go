package parts

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

// What is sized by the machine goes by the processors' time that the process may use,
// and the threads that must be on time come on top.
func TestProcs(t *testing.T) {
	c := config.Default()
	c.Backend.Pools = make([]config.Pool, 2)
	for processors, want := range map[int]struct{ procs, decoders int }{1: {1 + 6 + 1, 1}, 2: {2 + 6 + 1, 1}, 64: {64 + 6 + 1, 63}} {
		if got := procs(c, processors, 0); got != want.procs {
			t.Errorf("%d processors: GOMAXPROCS %d, want %d", processors, got, want.procs)
		}
		if got := decoders(c.Frontend, processors); got != want.decoders {
			t.Errorf("%d processors: %d images at a time, want %d", processors, got, want.decoders)
		}
	}
	if got := procs(c, 2, 1); got != 2+6+1+1 {
		t.Errorf("with a thread that polls a device: GOMAXPROCS %d", got)
	}
	if c.Procs, c.Frontend.Preprocess = 5, 7; procs(c, 64, 0) != 5 || decoders(c.Frontend, 64) != 7 {
		t.Error("what is configured is not taken")
	}
}

// A process that was given less than the machine has does not take the machine's. (The
// runtime turns a container's quota and GOMAXPROCS into the same number, before main.)
func TestProcsOfALimitedProcess(t *testing.T) {
	const marker = "PARTS_TEST_LIMITED"
	if os.Getenv(marker) != "" {
		cfg := config.Default()
		cfg.RDMA.Mode, cfg.TCP.KernelRTT, cfg.Log.Level = "never", "never", "error"
		if _, err := New(cfg); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("processors %d, GOMAXPROCS %d\n", cli.Processors(), runtime.GOMAXPROCS(0))
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestProcsOfALimitedProcess$", "-test.v")
	cmd.Env = append(os.Environ(), marker+"=1", "GOMAXPROCS=1")
	out, err := cmd.CombinedOutput()
	want := fmt.Sprintf("processors 1, GOMAXPROCS %d\n", 1+lateThreads+1)
	if err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v: want %q in\n%s", err, want, out)
	}
}
