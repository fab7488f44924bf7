package rdmae2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/cgo/verbs"
	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/discover"
)

const root = "../../.."

// hangMax is the span from a fault to a defined answer for everybody.
const hangMax = 2 * time.Second

// peerEnv makes the test's binary a peer: see peer_test.go.
const peerEnv = "SYMPHONY_RDMA_TEST_PEER"

func TestMain(m *testing.M) {
	if text := os.Getenv(peerEnv); text != "" {
		if err := servePeer(text); err != nil {
			fmt.Fprintln(os.Stderr, "peer:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// say prints a line that belongs into the console of a run, not only of a failed one.
func say(format string, args ...any) { fmt.Printf("   "+format+"\n", args...) }

// need skips the test where there is no device, and fails it where one was
// promised. At the test's end the kernel must hold what it held before.
func need(t *testing.T) {
	t.Helper()
	nic, err := openDevice(verbs.New())
	if err == nil {
		err = nic.Close()
	}
	switch {
	case err != nil && os.Getenv("SYMPHONY_REQUIRE_RDMA") != "":
		t.Fatalf("no RDMA device, though SYMPHONY_REQUIRE_RDMA is set: %v", err)
	case err != nil:
		t.Skipf("no RDMA device: %v", err)
	}
	before := resources(t)
	t.Cleanup(func() { settle(t, "all is over", before) })
}

func openDevice(v rdma.Verbs) (*rdma.NIC, error) { return discover.Open(v, rdma.Config{GIDIndex: -1}) }

// binary is symphony with RDMA: the VM's, or else built now.
var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("SYMPHONY_RDMA_BIN"); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "symphony-rdma") // left to the system: it outlives no boot
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "symphony")
	build := exec.Command("go", "build", "-tags", "rdma", "-o", path, "./cmd/symphony")
	build.Dir, build.Stderr = root, os.Stderr
	return path, build.Run()
})
