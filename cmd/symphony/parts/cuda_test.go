package parts

import (
	"errors"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/backend/cuda"
)

// TestCUDA: there are devices, or one line says why not.
func TestCUDA(t *testing.T) {
	all, err := CUDA().Devices()
	if err == nil {
		for _, d := range all {
			t.Logf("%+v", d)
		}
		return
	}
	var missing *cuda.UnsupportedError
	if !errors.As(err, &missing) || missing.What == "" || missing.Need == "" || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}
