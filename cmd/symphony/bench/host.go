package bench

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// startTimes are the processors' when the process began: what a virtual machine's host
// gave to others since then (steal) is the first thing to know of a figure that is worse
// than another run's.
var startTimes = readProcessorTimes()

// processorTimes are sums over all processors, in the kernel's ticks.
type processorTimes struct{ all, stolen uint64 }

// readProcessorTimes is zero where there is no /proc/stat.
func readProcessorTimes() processorTimes {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return processorTimes{}
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return parseProcessorTimes(line)
}

// parseProcessorTimes reads the line "cpu user nice system idle iowait irq softirq steal
// guest guest_nice"; the last two are in the first two already.
func parseProcessorTimes(line string) (t processorTimes) {
	const stealAt, last = 7, 8
	fields := strings.Fields(line)
	if len(fields) <= last || fields[0] != "cpu" {
		return t
	}
	for i, f := range fields[1 : last+1] {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return processorTimes{}
		}
		t.all += n
		if i == stealAt {
			t.stolen = n
		}
	}
	return t
}

// stolenShare is the share of the processors' time, 0 to 1, that went to others between
// two readings; false: the readings do not tell (none, too close, a counter set back).
func stolenShare(from, to processorTimes) (float64, bool) {
	const least = 100 // ticks: a second of one processor
	if from.all == 0 || to.all < from.all+least || to.stolen < from.stolen {
		return 0, false
	}
	return float64(to.stolen-from.stolen) / float64(to.all-from.all), true
}

// hostText is what the figures depend on most.
func hostText() string {
	text := fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				text += " (" + strings.TrimSpace(model) + ")"
				break
			}
		}
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		release, _, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), "-") // what follows is the host's own
		text += ", " + unix.ByteSliceToString(u.Sysname[:]) + " " + release
	}
	if share, ok := stolenShare(startTimes, readProcessorTimes()); ok && share > 0 {
		text += fmt.Sprintf("; the host took %.1f %% of the processors' time (steal)", 100*share)
	}
	return text
}
