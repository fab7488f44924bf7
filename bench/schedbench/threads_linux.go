package schedbench

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/transport/mono"
)

// threadCPU is the processor time that each thread of this process has used.
func threadCPU() map[int]mono.Dur {
	all, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil
	}
	used := make(map[int]mono.Dur, len(all))
	for _, e := range all {
		if id, err := strconv.Atoi(e.Name()); err == nil {
			used[id] = cpuOf(id)
		}
	}
	return used
}

// cpuOf asks the thread's own clock, whose number is made of its id as in the
// kernel's CPUCLOCK_SCHED of a single thread. 0 for a thread that has ended.
func cpuOf(id int) mono.Dur {
	var ts unix.Timespec
	if unix.ClockGettime(int32(^id<<3|6), &ts) != nil {
		return 0
	}
	return mono.Dur(ts.Nano())
}
