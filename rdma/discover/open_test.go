package discover

import (
	"errors"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/fakeverbs"
)

// Open takes what List finds, with the address that BestGID finds, and says what is
// wrong with what it cannot take.
func TestOpen(t *testing.T) {
	root := fake(t, softRoCE())
	found, err := List(root)
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	fabric := fakeverbs.New(fakeverbs.Config{Devices: []string{found[0].Name}})
	nic, err := openBelow(root, fabric.Host("a"), rdma.Config{GIDIndex: -1})
	if err != nil {
		t.Fatal(err)
	}
	port, _ := found[0].ActivePort()
	best, _ := found[0].BestGID(port)
	if _, gid := nic.GID(); gid != best || nic.Name() != found[0].Name {
		t.Errorf("%s with GID %d, want %d", nic.Name(), gid, best)
	}
	if err := nic.Close(); err != nil {
		t.Error(err)
	}
	if _, err := openBelow(root, fabric.Host("a"), rdma.Config{Device: "nosuch"}); err == nil || !strings.Contains(err.Error(), "no device nosuch") {
		t.Errorf("a device that is not there: %v", err)
	}
	if _, err := openBelow(root, closed{}, rdma.Config{}); !errors.Is(err, errors.ErrUnsupported) || errors.Is(err, ErrNone) {
		t.Errorf("a device that this binary cannot use: %v", err)
	}
	if _, err := openBelow(t.TempDir(), closed{}, rdma.Config{}); !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, ErrNone) {
		t.Errorf("no device, and a binary that could not use one: %v", err)
	}
	if _, err := openBelow(t.TempDir(), fabric.Host("a"), rdma.Config{}); !errors.Is(err, ErrNone) {
		t.Errorf("no device at all: %v", err)
	}
}

// closed is the door of a binary without one.
type closed struct{ rdma.Verbs }

func (closed) Devices() ([]string, error) {
	return nil, &rdma.UnsupportedError{What: "verbs", Need: "a tag"}
}
