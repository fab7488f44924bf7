//go:build !cuda || !cgo || !linux || !(amd64 || arm64)

package cuda

import (
	"errors"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/backend/cuda"
)

// TestStubSaysWhatIsMissing: without the tag every call names the tag and the header.
func TestStubSaysWhatIsMissing(t *testing.T) {
	_, err := New().Devices()
	_, errOpen := New().Open(0)
	for _, err := range []error{err, errOpen} {
		var missing *cuda.UnsupportedError
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), "-tags cuda") || !strings.Contains(err.Error(), "cuda.h") {
			t.Errorf("got %v", err)
		}
	}
	if Linked {
		t.Error("the stub says that it is linked")
	}
}
