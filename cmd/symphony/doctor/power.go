package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// frequency: a processor that is clocked down runs the first batch after a pause late.
func (h *Host) frequency(Needs) []Finding {
	governors := map[string][]int{}
	for _, c := range h.Cores {
		if g := h.text(fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", c)); g != "" {
			governors[g] = append(governors[g], c)
		}
	}
	if len(governors) == 0 {
		return []Finding{{Part: "frequency", State: Note, Found: "the kernel offers no control of it here"}}
	}
	var parts []string
	for _, g := range slices.Sorted(maps.Keys(governors)) {
		parts = append(parts, fmt.Sprintf("%s on processors %s", g, list(governors[g])))
	}
	f := Finding{Part: "frequency", Found: "governor " + strings.Join(parts, ", ")}
	if len(governors) > 1 || governors["performance"] == nil {
		f.State, f.Change = Warn, "sudo cpupower frequency-set -g performance"
	}
	return []Finding{f}
}

// exitMax is the longest way out of an idle state that is not worth a word, in microseconds.
const exitMax = 20

// idleStates: the way out of a deep one is part of each wake-up.
func (h *Host) idleStates(Needs) []Finding {
	if len(h.Cores) == 0 {
		return nil
	}
	deepest, name := int64(-1), ""
	for _, dir := range h.glob(fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpuidle/state[0-9]*", h.Cores[0])) {
		off, _ := h.number(dir + "/disable")
		us, ok := h.number(dir + "/latency")
		if ok && off == 0 && us > deepest {
			deepest, name = us, h.text(dir+"/name")
		}
	}
	if deepest < 0 {
		return []Finding{{Part: "idle states", State: Note, Found: "the kernel offers no control of them here"}}
	}
	f := Finding{Part: "idle states", Found: fmt.Sprintf("the deepest that is used, %s, takes %d us to leave", orUnnamed(name), deepest)}
	if deepest > exitMax {
		f.State, f.Change = Warn, fmt.Sprintf("sudo cpupower idle-set -D %d", exitMax)
	}
	return []Finding{f}
}

func orUnnamed(name string) string {
	if name == "" {
		return "one without a name"
	}
	return name
}
