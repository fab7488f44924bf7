package ingress

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestTritonclient runs the real client where Python has it. SYMPHONY_PYTHON
// names the interpreter.
func TestTritonclient(t *testing.T) {
	python := os.Getenv("SYMPHONY_PYTHON")
	if python == "" {
		python = "python3"
	}
	if err := exec.Command(python, "-c", "import numpy, tritonclient.http").Run(); err != nil {
		t.Skipf("%s has no tritonclient[http]; set SYMPHONY_PYTHON to one that has: %v", python, err)
	}
	s := start(t, Config{})
	out, err := exec.Command(python, "testdata/tritonclient_check.py", s.address).CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "all passed") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
