//go:build !cgo || !linux

package nvml

import (
	"errors"
	"strings"
	"testing"
)

// TestStubSaysWhatIsMissing: without cgo Open is an errors.ErrUnsupported that names it.
func TestStubSaysWhatIsMissing(t *testing.T) {
	_, err := Open()
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "CGO_ENABLED=1") {
		t.Errorf("got %v", err)
	}
}
