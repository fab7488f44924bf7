package doctor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// nicIRQ is an interrupt of a network device.
type nicIRQ struct {
	device, number string
	cores          []int // where it goes
}

// interrupts of network devices on the cores of the scheduler's loops hold these up.
func (h *Host) interrupts(n Needs) []Finding {
	irqs := h.nicIRQs()
	if len(irqs) == 0 {
		return []Finding{{Part: "interrupts", State: Note, Found: "none of a network device is listed here"}}
	}
	where := []int{}
	for _, q := range irqs {
		where = append(where, q.cores...)
	}
	slices.Sort(where)
	found := fmt.Sprintf("%d of network devices, on processors %s", len(irqs), list(slices.Compact(where)))
	if len(n.LoopCores) == 0 {
		return []Finding{{Part: "interrupts", Found: found + "; the scheduler's loops are tied to none here"}}
	}
	hits := slices.DeleteFunc(slices.Clone(irqs), func(q nicIRQ) bool { return len(without(q.cores, n.LoopCores)) == len(q.cores) })
	balance := h.runs("irqbalance")
	loops, others := list(n.LoopCores), list(without(h.Cores, n.LoopCores))
	switch {
	case len(hits) == 0 && !balance:
		return []Finding{{Part: "interrupts", Found: found + ", away from the scheduler's loops on " + loops}}
	case len(hits) == 0:
		return []Finding{{Part: "interrupts", State: Warn, Found: found + "; irqbalance runs and may move them to the scheduler's loops on " + loops,
			Change: "sudo systemctl disable --now irqbalance, or IRQBALANCE_BANNED_CPULIST=" + loops + " in /etc/default/irqbalance"}}
	}
	change := fmt.Sprintf("for i in %s; do echo %s | sudo tee /proc/irq/$i/smp_affinity_list; done", strings.Join(numbers(hits), " "), others)
	if balance {
		change = "sudo systemctl disable --now irqbalance; " + change
	}
	return []Finding{{Part: "interrupts", State: Warn, Found: fmt.Sprintf("%s; %d of them on those of the scheduler's loops, %s", found, len(hits), loops), Change: change}}
}

func numbers(irqs []nicIRQ) (out []string) {
	for _, q := range irqs {
		out = append(out, q.number)
	}
	return out
}

// nicIRQs lists those of all network devices that are hardware, each once. A virtio device's are
// its parent's.
func (h *Host) nicIRQs() (out []nicIRQ) {
	seen := map[string]bool{}
	for _, dev := range h.glob("sys/class/net/*/device") {
		real, err := filepath.EvalSymlinks(filepath.Join(h.Root, dev))
		if err != nil {
			continue
		}
		for _, dir := range []string{real, filepath.Dir(real)} {
			lists, _ := filepath.Glob(filepath.Join(dir, "msi_irqs/[0-9]*"))
			for _, path := range lists {
				if number := filepath.Base(path); !seen[number] {
					seen[number] = true
					out = append(out, nicIRQ{filepath.Base(filepath.Dir(dev)), number, h.irqCores(number)})
				}
			}
		}
	}
	return out
}

// irqCores is where an interrupt goes: where the kernel tells no more, where it may go.
func (h *Host) irqCores(number string) []int {
	for _, name := range []string{"effective_affinity_list", "smp_affinity_list"} {
		if c := cores(h.text("proc/irq/" + number + "/" + name)); len(c) > 0 {
			return c
		}
	}
	return nil
}

// runs reports whether a process of that name is there.
func (h *Host) runs(name string) bool {
	return slices.ContainsFunc(h.glob("proc/[0-9]*/comm"), func(path string) bool { return h.text(path) == name })
}

// capSysNice lets threads go before others.
const capSysNice = 23

// priorities are asked for by threads that are tied to a core.
func (h *Host) priorities(n Needs) []Finding {
	allowed := h.Caps&(1<<capSysNice) != 0 || h.Limits.Nice >= 40
	switch {
	case len(n.LoopCores) == 0:
		return []Finding{{Part: "priorities", Found: "none is asked for here: the scheduler's loops are tied to no processor"}}
	case allowed:
		return []Finding{{Part: "priorities", Found: "the scheduler's loops may go before others of their processors " + list(n.LoopCores)}}
	}
	return []Finding{{Part: "priorities", State: Warn, Found: "the scheduler's loops, tied to processors " + list(n.LoopCores) + ", may not go before others there",
		Change: "give the process CAP_SYS_NICE (systemd: AmbientCapabilities=CAP_SYS_NICE; containers: add SYS_NICE), or keep others off these processors (kernel command line: isolcpus=" + list(n.LoopCores) + ")"}}
}
