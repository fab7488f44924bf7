package doctor

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
)

// system says what this is; it changes nothing.
func (h *Host) system(Needs) []Finding {
	found := fmt.Sprintf("%s %s on %s", runtime.GOOS, h.Kernel, runtime.GOARCH)
	state := OK
	if h.virtual() {
		found += ", in a virtual machine: its host decides on frequencies, idle states and stolen time"
		state = Note
	}
	return []Finding{{Part: "system", State: state, Found: found}}
}

func (h *Host) virtual() bool {
	for line := range strings.Lines(h.text("proc/cpuinfo")) {
		if name, flags, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "flags" {
			return strings.Contains(" "+strings.TrimSpace(flags)+" ", " hypervisor ")
		}
	}
	return false
}

// processors looks at who may take them away: a quota, other virtual machines.
func (h *Host) processors(Needs) []Finding {
	var out []Finding
	online := len(cores(h.text("sys/devices/system/cpu/online")))
	found := fmt.Sprintf("%d of %d, numbers %s", len(h.Cores), max(online, len(h.Cores)), list(h.Cores))
	if quota, where := h.quota(); quota > 0 {
		found += fmt.Sprintf(", with the time of %.2g (a quota, %s)", quota, where)
		if n := h.throttled(); n > 0 {
			found += fmt.Sprintf("; it has stopped this group %d times", n)
		}
		out = append(out, Finding{Part: "processors", State: Warn, Found: found,
			Change: "take the quota off: it stops a loop for tens of milliseconds. In Kubernetes no limits.cpu, or Guaranteed pods of whole processors with the static CPU manager; Docker: no --cpus; systemd: no CPUQuota="})
	} else {
		out = append(out, Finding{Part: "processors", Found: found + ", no quota"})
	}
	return append(out, h.stolen()...)
}

// quota is the least number of processors' time that a group grants; 0: no group sets one.
func (h *Host) quota() (processors float64, where string) {
	for _, g := range h.groups("cpu") {
		quota, period := int64(-1), int64(0)
		if f := strings.Fields(h.text(g + "/cpu.max")); len(f) == 2 {
			q, err := strconv.ParseInt(f[0], 10, 64)
			if p, err2 := strconv.ParseInt(f[1], 10, 64); err == nil && err2 == nil {
				quota, period = q, p
			}
		} else if q, ok := h.number(g + "/cpu.cfs_quota_us"); ok {
			quota = q
			period, _ = h.number(g + "/cpu.cfs_period_us")
		}
		if quota > 0 && period > 0 {
			if n := float64(quota) / float64(period); processors == 0 || n < processors {
				processors, where = n, "/"+g
			}
		}
	}
	return processors, where
}

// throttled is how often a quota has stopped the process's groups.
func (h *Host) throttled() (times int64) {
	for _, g := range h.groups("cpu") {
		n, _ := field(h.text(g+"/cpu.stat"), "nr_throttled")
		times = max(times, n)
	}
	return times
}

// stolenMax is the share of time that others may take before it is worth a word.
const stolenMax = 0.01

// stolen is the time that the hypervisor gave to others while we wanted to run.
func (h *Host) stolen() []Finding {
	f := fields(h.text("proc/stat"), "cpu")
	if len(f) < 8 || !h.virtual() {
		return nil
	}
	var total, steal float64
	for i, text := range f[:8] {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil
		}
		total += n
		if i == 7 {
			steal = n
		}
	}
	if total == 0 {
		return nil
	}
	share := steal / total
	found := fmt.Sprintf("%.1f %% of the processors' time since the start went to others of the host", 100*share)
	if share <= stolenMax {
		return []Finding{{Part: "stolen time", Found: found}}
	}
	return []Finding{{Part: "stolen time", State: Warn, Found: found,
		Change: "a virtual machine with processors of its own (a dedicated or bare-metal type): a loop that is not run cannot be on time"}}
}
