package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/transport/mono"
)

// lateMax is how late a wait may end, at p99, before it is worth a word: the scheduler keeps about
// a millisecond in hand (scheduler.lead).
const lateMax = 500 * mono.Microsecond

// timers are measured as the scheduler's loops wait.
func (h *Host) timers(Needs) []Finding {
	c := h.Clock
	if c.Waits == 0 {
		return nil
	}
	found := fmt.Sprintf("a wait of 1 ms ends %v late at the median, %v at p99 (%d waits just now)", rounded(c.LateP50), rounded(c.LateP99), c.Waits)
	switch {
	case c.Resolution > mono.Microsecond:
		return []Finding{{Part: "timers", State: Warn, Found: fmt.Sprintf("the kernel's have a resolution of %v; %s", c.Resolution, found),
			Change: "a kernel with CONFIG_HIGH_RES_TIMERS, and no highres=off on its command line"}}
	case c.LateP99 > lateMax:
		return []Finding{{Part: "timers", State: Warn, Found: found,
			Change: "see what else runs here (top), and look again on an idle host; give the scheduler processors of its own, or raise scheduler.lead above what was measured"}}
	}
	return []Finding{{Part: "timers", Found: found}}
}

// readingMax is what a reading of the clock may take: more means that each is a system call, or
// goes to a slow device.
const readingMax = 250 * mono.Nanosecond

// clock is the one that all deadlines are measured with.
func (h *Host) clock(Needs) []Finding {
	const dir = "sys/devices/system/clocksource/clocksource0/"
	source := h.text(dir + "current_clocksource")
	if source == "" {
		source = "unknown"
	}
	found := fmt.Sprintf("source %s, a reading takes %v", source, h.Clock.Reading)
	if h.Clock.Reading <= readingMax {
		return []Finding{{Part: "clock", Found: found}}
	}
	f := Finding{Part: "clock", State: Warn, Found: found + ": each is a system call or slower",
		Change: "a host whose processors have a steady time stamp counter (kernel command line: tsc=reliable, where the vendor says that it is)"}
	if source != "tsc" && slices.Contains(strings.Fields(h.text(dir+"available_clocksource")), "tsc") {
		f.Change = "echo tsc | sudo tee /" + dir + "current_clocksource"
	}
	return []Finding{f}
}

// wallClock orders logs and restarts; deadlines do not depend on it.
func (h *Host) wallClock(Needs) []Finding {
	switch {
	case !h.Clock.SyncKnown:
		return []Finding{{Part: "wall clock", State: Note, Found: "whether it follows others is not told here"}}
	case h.Clock.Synced:
		return []Finding{{Part: "wall clock", Found: "it follows others"}}
	}
	return []Finding{{Part: "wall clock", State: Warn, Found: "nothing keeps it right, says the kernel; logs of hosts cannot be put side by side, and settings of restarted backends may come in the wrong order",
		Change: "sudo apt-get install chrony && chronyc tracking (not in a container: on its host)"}}
}

// rounded is d as people read it.
func rounded(d mono.Dur) mono.Dur {
	unit := mono.Dur(100)
	if d >= 100*mono.Microsecond {
		unit = mono.Microsecond
	}
	return (d + unit/2) / unit * unit
}
