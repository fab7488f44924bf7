//go:build !cuda || !cgo || !linux || !(amd64 || arm64)

package cuda

import "github.com/symphony-serving/symphony/backend/cuda"

// Linked reports whether this binary has the door to the driver.
const Linked = false

type stub struct{}

// New returns a door behind which there is nothing.
func New() cuda.Driver { return stub{} }

func unsupported() error {
	return &cuda.UnsupportedError{What: "this binary was built without it", Need: "build with -tags cuda; needs cuda.h of CUDA 12, cgo and Linux (`make build` adds the tag where it finds them, `make cuda-headers` fetches the header)"}
}

// Devices says what is missing.
func (stub) Devices() ([]cuda.Info, error) { return nil, unsupported() }

// Open says what is missing.
func (stub) Open(int) (cuda.Context, error) { return nil, unsupported() }
