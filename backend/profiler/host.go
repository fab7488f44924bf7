package profiler

import (
	"os"
	"runtime"
	"slices"
	"strings"
)

// Host is what a measurement on a CPU depends on beside the device. None of it is set
// where it does not matter.
type Host struct {
	CPU        string `json:"cpu,omitempty"`
	Processors int    `json:"processors,omitempty"`
}

// processors is how many the process may use: less than there are where it is bound to
// some, where a container has a quota, or where GOMAXPROCS is set. (Read before anything
// raises it.)
var processors = runtime.GOMAXPROCS(0)

// ThisHost is where this process runs.
func ThisHost() Host {
	text, _ := os.ReadFile("/proc/cpuinfo") // not there on all systems
	model := cpuModel(string(text))
	if model == "" {
		model = runtime.GOOS + "/" + runtime.GOARCH
	}
	return Host{CPU: model, Processors: processors}
}

// cpuModel finds the processors' model in the text of /proc/cpuinfo: "" where it is not
// told. Where cores are of several kinds it has them all.
func cpuModel(text string) string {
	var names, parts []string
	implementer := ""
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(name) {
		case "model name", "cpu": // x86; POWER
			names = appendNew(names, value)
		case "CPU implementer": // ARM tells numbers
			implementer = value
		case "CPU part":
			parts = appendNew(parts, "ARM "+implementer+"/"+value)
		}
	}
	if len(names) == 0 {
		names = parts
	}
	return strings.Join(names, " + ")
}

func appendNew(names []string, name string) []string {
	if name == "" || slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}
