//go:build !rdma || !cgo || !linux

package verbs

import (
	"errors"
	"strings"
	"testing"
)

// TestStubSaysWhatIsMissing: without the tag every call is an errors.ErrUnsupported
// that names the tag and the package.
func TestStubSaysWhatIsMissing(t *testing.T) {
	_, err := New().Devices()
	_, errOpen := New().Open("mlx5_0")
	for _, err := range []error{err, errOpen} {
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "-tags rdma") || !strings.Contains(err.Error(), "libibverbs-dev") {
			t.Errorf("got %v", err)
		}
	}
}
