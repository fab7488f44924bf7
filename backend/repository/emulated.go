package repository

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// memoryFile is what an emulated model takes of a device.
type memoryFile struct {
	Static  string `yaml:"static"`  // while it is loaded
	Dynamic string `yaml:"dynamic"` // beyond that while it runs
}

// loadMax bounds what config.yaml may say of loading.
const loadMax = time.Hour

// emulation takes what only emulated models say: a real one's memory is that of its files, and
// loading takes what it takes.
func (f *file) emulation(m *Model, bad func(field, format string, args ...any)) {
	if m.Spec.Platform != PlatformEmulated {
		if f.Memory != nil {
			bad("memory", "is for emulated models: a real one takes what its files have")
		}
		if f.Load != "" {
			bad("load", "is for emulated models: a real one takes as long as it takes")
		}
		return
	}
	if f.Load != "" {
		d, err := time.ParseDuration(f.Load)
		if err != nil || d < 0 || d > loadMax {
			bad("load", "%q is no span up to an hour: write it like 200ms", f.Load)
		}
		m.LoadTime = mono.Dur(d)
	}
	if f.Memory == nil {
		return
	}
	for _, part := range []struct {
		field, text string
		to          *int64
	}{{"memory.static", f.Memory.Static, &m.Static}, {"memory.dynamic", f.Memory.Dynamic, &m.Dynamic}} {
		n, err := bytesOf(part.text)
		if err != nil {
			bad(part.field, "%v", err)
		}
		*part.to = n
	}
}

// bytesOf reads a size as people write it; empty: 0.
func bytesOf(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	at := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if at < 0 {
		at = len(text)
	}
	unit, known := map[string]float64{"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[strings.TrimSpace(text[at:])]
	n, err := strconv.ParseFloat(text[:at], 64)
	if err != nil || !known || n < 0 || n*unit > 1<<50 {
		return 0, fmt.Errorf("%q is no size: write it like 100MiB", text)
	}
	return int64(n * unit), nil
}
