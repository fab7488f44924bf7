package doctor

import (
	"os"
	"runtime"
	"strings"
	"testing"
)

// TestHere: what is held of this host is what others say of it.
func TestHere(t *testing.T) {
	h := Here()
	if len(h.Cores) != runtime.NumCPU() {
		t.Errorf("processors %v, Go counts %d", h.Cores, runtime.NumCPU())
	}
	if c := h.Clock; c.Waits != waits || c.LateP50 < 0 || c.LateP99 < c.LateP50 || c.Reading <= 0 || c.Resolution <= 0 {
		t.Errorf("%+v", c)
	}
	text, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "Max open files"):
			if f[4] != told(h.Limits.Files) {
				t.Errorf("files %d: %s", h.Limits.Files, line)
			}
		case strings.HasPrefix(line, "Max locked memory"):
			if f[3] != told(h.Limits.Locked) {
				t.Errorf("locked %d: %s", h.Limits.Locked, line)
			}
		case strings.HasPrefix(line, "Max processes"):
			if f[2] != told(h.Limits.Threads) {
				t.Errorf("threads %d: %s", h.Limits.Threads, line)
			}
		}
	}
	for _, f := range h.Look(Needs{}) {
		if f.Found == "" || strings.Contains(f.Found, "%!") || (f.State >= Warn) != (f.Change != "") {
			t.Errorf("%+v", f)
		}
	}
}

func told(n uint64) string {
	if n == Unlimited {
		return "unlimited"
	}
	return count(n)
}
