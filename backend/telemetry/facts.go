package telemetry

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/backend/telemetry/health"
)

// othersNamed is how many processes of others are named.
const othersNamed = 3

// factsOf is what a sample says about health. Unknown values are never against a device.
func factsOf(s *Sample, d *Device, p processes) *health.Facts {
	f := &health.Facts{Throttle: s.Throttle.Value, Uncorrected: -1, Detail: detailOf(s),
		RemapPending: s.Remapped.Value.Pending, RemapFailed: s.Remapped.Value.Failed}
	if s.UncorrectedVolatile.Known {
		f.Uncorrected = int64(s.UncorrectedVolatile.Value)
	}
	if !d.MIG { // in MIG mode, who computes on an instance is beside nobody but there
		f.Others = p.describe(p.others(s.Processes.Value))
	}
	return f
}

func detailOf(s *Sample) string {
	var parts []string
	if s.Temperature.Known {
		parts = append(parts, fmt.Sprintf("%d C", s.Temperature.Value))
	}
	if s.SMClock.Known && s.SMClockMax.Known {
		parts = append(parts, fmt.Sprintf("SM clock %d of %d MHz", s.SMClock.Value, s.SMClockMax.Value))
	}
	if s.Power.Known && s.PowerLimit.Known {
		parts = append(parts, fmt.Sprintf("%.0f of %.0f W", s.Power.Value, s.PowerLimit.Value))
	}
	return strings.Join(parts, ", ")
}

// processes tells ours from those of others.
type processes struct {
	own  int                          // our process id
	name func(pid int) (string, bool) // of a process of this host that we see
}

// others are the processes that are not ours. NVML may name processes by ids of the
// host's namespace, where ours is not what we think. Then ours is among those that we do
// not see, and one of them is taken for it: of one stranger in another container nothing
// is said, rather than of ourselves.
func (p processes) others(all []Process) []Process {
	var out []Process
	ours, unseen := false, -1
	for _, q := range all {
		if q.PID == p.own {
			ours = true
			continue
		}
		if _, ok := p.name(q.PID); !ok && unseen < 0 {
			unseen = len(out)
		}
		out = append(out, q)
	}
	if !ours && unseen >= 0 {
		out = append(out[:unseen], out[unseen+1:]...)
	}
	return out
}

// describe names them: "4711 (python3, 3174 MiB)".
func (p processes) describe(list []Process) string {
	var parts []string
	for i, q := range list {
		if i == othersNamed {
			parts = append(parts, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		var notes []string
		if name, ok := p.name(q.PID); ok {
			notes = append(notes, name)
		}
		if q.Memory.Known {
			notes = append(notes, fmt.Sprintf("%d MiB", q.Memory.Value>>20))
		}
		text := "process " + strconv.Itoa(q.PID)
		if len(notes) > 0 {
			text += " (" + strings.Join(notes, ", ") + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// ProcessName is what /proc calls a process; false: we do not see it.
func ProcessName(pid int) (string, bool) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	return strings.TrimSpace(string(b)), err == nil
}
