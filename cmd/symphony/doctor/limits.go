package doctor

import (
	"fmt"
	"strconv"
)

// otherFiles are those beside the ingress's connections: links, models, libraries, logs.
const otherFiles = 1024

func (h *Host) files(n Needs) []Finding {
	limit := h.Limits.Files
	need := uint64(n.Connections + otherFiles)
	found := fmt.Sprintf("this process may have %s open", count(limit))
	if limit >= need {
		return []Finding{{Part: "open files", Found: fmt.Sprintf("%s; %d connections (frontend.connections) and what else it opens fit", found, n.Connections)}}
	}
	return []Finding{{Part: "open files", State: Warn, Found: fmt.Sprintf("%s; the ingress alone takes %d connections (frontend.connections)", found, n.Connections),
		Change: fmt.Sprintf("ulimit -n %d; systemd: LimitNOFILE=%d; containers: --ulimit nofile=%d. Or lower frontend.connections", need, need, need)}}
}

// backlogLeast is how many connections a burst may bring before they are taken.
const backlogLeast = 1024

func (h *Host) backlog(Needs) []Finding {
	n, ok := h.number("proc/sys/net/core/somaxconn")
	if !ok {
		return []Finding{{Part: "backlog", State: Note, Found: "how many connections may wait to be taken is not told here"}}
	}
	f := Finding{Part: "backlog", Found: fmt.Sprintf("%d connections may wait to be taken (net.core.somaxconn)", n)}
	if n < backlogLeast {
		f.State, f.Change = Warn, "sudo sysctl net.core.somaxconn=16384"
	}
	return []Finding{f}
}

// Capabilities that exempt a process from the limit of its user's threads.
const (
	capSysAdmin    = 21
	capSysResource = 24
)

// threads: each device and each loop has one, and the Go runtime some.
func (h *Host) threads(n Needs) []Finding {
	limit, of := h.Limits.Threads, "of this user"
	if h.Caps&(1<<capSysAdmin|1<<capSysResource) != 0 {
		limit = Unlimited
	}
	for _, name := range []string{"threads-max", "pid_max"} {
		if most, ok := h.number("proc/sys/kernel/" + name); ok && uint64(most) < limit {
			limit, of = uint64(most), "of this host"
		}
	}
	for _, g := range h.groups("pids") {
		if most, err := strconv.ParseUint(h.text(g+"/pids.max"), 10, 64); err == nil && most < limit {
			limit, of = most, "of this control group"
		}
	}
	f := Finding{Part: "threads", Found: fmt.Sprintf("%s %s may run; the configured parts take about %d", count(limit), of, n.Threads)}
	if limit < uint64(n.Threads) {
		f.State, f.Change = Fail, fmt.Sprintf("ulimit -u %d; systemd: TasksMax=%d; containers: --pids-limit %d", 4*n.Threads, 4*n.Threads, 4*n.Threads)
	}
	return []Finding{f}
}

// sharedLeast is what a few clients' tensors take; a container has 64 MiB unless told.
const sharedLeast = 256 << 20

func (h *Host) sharedMemory(Needs) []Finding {
	switch {
	case h.Shared == 0:
		return []Finding{{Part: "shared memory", State: Note, Found: "no /dev/shm here: clients of this host send tensors over their connections"}}
	case h.Shared < sharedLeast:
		return []Finding{{Part: "shared memory", State: Warn, Found: fmt.Sprintf("/dev/shm holds %s: too little for clients that pass tensors by it", bytes(h.Shared)),
			Change: "docker run --shm-size=1g; Kubernetes: an emptyDir of medium Memory at /dev/shm"}}
	}
	return []Finding{{Part: "shared memory", Found: fmt.Sprintf("/dev/shm holds %s", bytes(h.Shared))}}
}

func count(n uint64) string {
	if n == Unlimited {
		return "any number"
	}
	return strconv.FormatUint(n, 10)
}
