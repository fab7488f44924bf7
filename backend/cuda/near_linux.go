package cuda

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// near keeps the calling thread on the processors of a NUMA node, as far as this process may
// use them; a negative node is unknown.
func near(node int) error {
	if node < 0 {
		return nil
	}
	list, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/node/node%d/cpulist", node))
	if err != nil {
		return fmt.Errorf("NUMA node %d: %w", node, err)
	}
	var may, both unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return fmt.Errorf("NUMA node %d: the processors of this process: %w", node, err)
	}
	for _, cpu := range cpus(string(list)) {
		if may.IsSet(cpu) {
			both.Set(cpu)
		}
	}
	if both.Count() == 0 {
		return fmt.Errorf("NUMA node %d: this process may use none of its processors (%s)", node, strings.TrimSpace(string(list)))
	}
	if err := unix.SchedSetaffinity(0, &both); err != nil {
		return fmt.Errorf("NUMA node %d: staying on its processors: %w", node, err)
	}
	return nil
}

// cpus reads a list as the kernel writes it: "0-15,32-47". What is none is left out.
func cpus(list string) []int {
	var out []int
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		from, to, ranged := strings.Cut(part, "-")
		first, err := strconv.ParseUint(from, 10, 16)
		last := first
		if ranged && err == nil {
			last, err = strconv.ParseUint(to, 10, 16)
		}
		for cpu := first; err == nil && cpu <= last; cpu++ {
			out = append(out, int(cpu))
		}
	}
	return out
}
