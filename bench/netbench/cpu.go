package netbench

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/transport/mono"
)

// ProcessCPU is the processor time that this process has used.
func ProcessCPU() (mono.Dur, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return mono.Dur(u.Utime.Nano() + u.Stime.Nano()), nil
}

// tick is the unit of /proc/stat.
const tick = 10 * mono.Millisecond

// machineCPU is what all processors of the machine have worked, kernel threads and
// interrupts included: those are nobody's in getrusage, and soft-RoCE works in them.
// false: not known here.
func machineCPU() (mono.Dur, bool) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	return machineBusy(b)
}

// machineBusy reads the first line: user, nice, system, idle, iowait, irq, softirq.
func machineBusy(stat []byte) (mono.Dur, bool) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	f := bytes.Fields(line)
	if len(f) < 8 || string(f[0]) != "cpu" {
		return 0, false
	}
	var sum mono.Dur
	for _, i := range []int{1, 2, 3, 6, 7} {
		n, err := strconv.ParseInt(string(f[i]), 10, 64)
		if err != nil {
			return 0, false
		}
		sum += mono.Dur(n) * tick
	}
	return sum, true
}

// usage is processor time at an instant, or between two.
type usage struct {
	client, servers, machine mono.Dur
	known                    bool // machine is
}

func (u usage) sub(v usage) usage {
	return usage{u.client - v.client, u.servers - v.servers, u.machine - v.machine, u.known && v.known}
}

func (u *usage) add(v usage) {
	u.client, u.servers, u.machine, u.known = u.client+v.client, u.servers+v.servers, u.machine+v.machine, v.known
}
