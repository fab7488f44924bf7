package doctor

import (
	"fmt"
	"strings"
)

// capIPCLock lets a process pin any amount of memory.
const capIPCLock = 14

// locked memory is what RDMA devices and GPUs reach.
func (h *Host) locked(n Needs) []Finding {
	limit := h.Limits.Locked
	if h.Caps&(1<<capIPCLock) != 0 {
		limit = Unlimited
	}
	found := "this process may pin any amount of memory"
	if limit != Unlimited {
		found = fmt.Sprintf("this process may pin %s", bytes(int64(min(limit, 1<<62))))
	}
	switch {
	case limit == Unlimited || limit >= uint64(n.Pinned):
		return []Finding{{Part: "memlock", Found: found}}
	case !n.Devices:
		return []Finding{{Part: "memlock", State: Note, Found: found + ": enough here, where no RDMA device and no GPU reaches memory"}}
	}
	return []Finding{{Part: "memlock", State: Warn, Found: fmt.Sprintf("%s, and the arena and the batch buffers may take %s (frontend.arena, rdma.buffers)", found, bytes(n.Pinned)),
		Change: "ulimit -l unlimited; systemd: LimitMEMLOCK=infinity; containers: add IPC_LOCK. Or lower frontend.arena and rdma.buffers"}}
}

// hugePages are translated faster, by processors and devices.
func (h *Host) hugePages(n Needs) []Finding {
	info := h.text("proc/meminfo")
	free, _ := field(info, "HugePages_Free")
	total, _ := field(info, "HugePages_Total")
	size, known := field(info, "Hugepagesize") // kB
	want := int64(1)
	if known && size > 0 {
		want = (n.Pinned + size<<10 - 1) / (size << 10)
	}
	thp := transparent(h.text("sys/kernel/mm/transparent_hugepage/enabled"))
	found := fmt.Sprintf("%d of %d set aside are free", free, total)
	if total == 0 {
		found = "none are set aside"
	}
	switch {
	case known && size == 2048 && free >= want:
		return []Finding{{Part: "huge pages", Found: fmt.Sprintf("%s, of %d kB each: the arena and the batch buffers fit (%d)", found, size, want)}}
	case (thp == "madvise" || thp == "always") && !n.Devices:
		return []Finding{{Part: "huge pages", Found: found + "; the kernel makes some as it can (transparent_hugepage: " + thp + ")"}}
	}
	change := fmt.Sprintf("sudo sysctl vm.nr_hugepages=%d", total-free+want)
	if thp != "madvise" && thp != "always" {
		change += ", or echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"
	}
	return []Finding{{Part: "huge pages", State: Warn, Found: found + "; " + orUnknownTHP(thp), Change: change}}
}

// transparent is the chosen word of "always [madvise] never".
func transparent(text string) string {
	_, rest, _ := strings.Cut(text, "[")
	word, _, _ := strings.Cut(rest, "]")
	return word
}

func orUnknownTHP(word string) string {
	if word == "" {
		return "the kernel does not say whether it makes some (transparent_hugepage)"
	}
	return "transparent_hugepage is " + word
}

// memory must be there before it is needed.
func (h *Host) memory(n Needs) []Finding {
	kb, ok := field(h.text("proc/meminfo"), "MemAvailable")
	if !ok {
		return []Finding{{Part: "memory", State: Note, Found: "how much is available is not told here"}}
	}
	available, of := kb<<10, "of the host"
	if left, ok := h.groupMemory(); ok && left < available {
		available, of = left, "of this control group"
	}
	found := fmt.Sprintf("%s are available %s; busy, the configured parts take %s beside models", bytes(available), of, bytes(n.Memory))
	if available < n.Memory {
		return []Finding{{Part: "memory", State: Fail, Found: found,
			Change: "more memory (or a higher limit of the container), or lower frontend.arena, frontend.image_memory and rdma.buffers"}}
	}
	return []Finding{{Part: "memory", Found: found}}
}

// noLimit is above what a limit can mean; version 1 writes one near the largest integer.
const noLimit = int64(1) << 60

// groupMemory is the least that a group leaves; what it holds of files it may give up.
func (h *Host) groupMemory() (left int64, ok bool) {
	for _, g := range h.groups("memory") {
		limit, known := h.number(g + "/memory.max")
		used, _ := h.number(g + "/memory.current")
		stat := h.text(g + "/memory.stat")
		files, _ := field(stat, "inactive_file")
		if !known {
			limit, known = h.number(g + "/memory.limit_in_bytes")
			used, _ = h.number(g + "/memory.usage_in_bytes")
			files, _ = field(stat, "total_inactive_file")
		}
		if known && limit < noLimit && (!ok || limit-used+files < left) {
			left, ok = limit-used+files, true
		}
	}
	return left, ok
}

// swap: nothing of ours may be swapped out.
func (h *Host) swap(Needs) []Finding {
	lines := strings.Split(h.text("proc/swaps"), "\n")
	if len(lines) < 2 {
		return []Finding{{Part: "swap", Found: "none"}}
	}
	var devices []string
	for _, line := range lines[1:] {
		if f := strings.Fields(line); len(f) > 0 {
			devices = append(devices, f[0])
		}
	}
	return []Finding{{Part: "swap", State: Warn, Found: "on " + strings.Join(devices, ", ") + ": memory that was swapped out is late",
		Change: "sudo swapoff -a, and take it out of /etc/fstab"}}
}

// bytes in the unit that people read.
func bytes(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
