//go:build cgo

package onnx

import (
	"os"
	"os/exec"
	"testing"
)

// The telemetry is off for what this process starts, unless the variable has a value already.
func TestTelemetryOff(t *testing.T) {
	for set, want := range map[string]string{"": "1", "0": "0", "1": "1"} {
		t.Setenv(telemetryVariable, set)
		if err := telemetryOff(); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("sh", "-c", `printf %s "$`+telemetryVariable+`"`).Output()
		if err != nil || string(out) != want || os.Getenv(telemetryVariable) != want {
			t.Errorf("set to %q: a child has %q, %v; want %q", set, out, err, want)
		}
	}
}
