//go:build !rdma || !cgo || !linux

package verbs

import "github.com/symphony-serving/symphony/rdma"

// Linked reports whether this binary has the door to libibverbs.
const Linked = false

type stub struct{}

// New returns a door behind which there is nothing.
func New() rdma.Verbs { return stub{} }

func unsupported() error {
	return &rdma.UnsupportedError{What: "RDMA verbs", Need: "build with -tags rdma; needs libibverbs-dev, cgo and Linux (`make build` adds the tag where it finds them)"}
}

// Devices says what is missing.
func (stub) Devices() ([]string, error) { return nil, unsupported() }

// Open says what is missing.
func (stub) Open(string) (rdma.Device, error) { return nil, unsupported() }
