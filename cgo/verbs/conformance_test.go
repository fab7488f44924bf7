//go:build rdma && cgo && linux

package verbs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/rdma/verbstest"
)

// TestConformance is the suite that the software NIC passes too, on a device of the
// kernel: whoever tests over rdma/fakeverbs has its word for what a device does.
func TestConformance(t *testing.T) {
	d, port := need(t)
	_, index := address(t, d, port)
	side := verbstest.Side{Verbs: New(), Device: d.Name(), Port: 1, GIDIndex: index}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	verbstest.Run(t, func(*testing.T) verbstest.Fixture {
		return verbstest.Fixture{A: side, B: side, Leaks: leaks}
	})
}

// leaks asks the kernel what this process has open, through iproute2's rdma where
// it is installed. It allows a moment for what is freed behind the call.
func leaks() error {
	if _, err := exec.LookPath("rdma"); err != nil {
		return nil
	}
	// By the name, because what the kernel calls pid is the thread that made it.
	name, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		return err
	}
	comm := strings.TrimSpace(string(name))
	var left []string
	for range 20 {
		left = left[:0]
		for _, kind := range []string{"qp", "cq", "mr", "pd"} {
			out, err := exec.Command("rdma", "resource", "show", kind).Output()
			if err != nil {
				return fmt.Errorf("rdma resource show %s: %w", kind, err)
			}
			for line := range strings.Lines(string(out)) {
				if strings.HasSuffix(strings.TrimSpace(line), "comm "+comm) {
					left = append(left, kind+": "+line)
				}
			}
		}
		if len(left) == 0 {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.New(strings.Join(left, ""))
}

// TestLeaksSeesWhatIsOpen: else the suite's check would be worth nothing.
func TestLeaksSeesWhatIsOpen(t *testing.T) {
	if _, err := exec.LookPath("rdma"); err != nil {
		t.Skip("iproute2's rdma is not installed")
	}
	p := connect(t)
	allocate(t, p.device, 4096)
	err := leaks()
	for _, kind := range []string{"qp: ", "cq: ", "mr: ", "pd: "} {
		if err == nil || !strings.Contains(err.Error(), kind) {
			t.Errorf("with queue pairs and a region open: %v; want some %s", err, kind)
		}
	}
}
