package peers

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// withParent ends a process with the thread that started it: Run stays on one thread.
// A group of its own keeps Ctrl-C from it: it is ended in order.
func withParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adopt makes this process the parent of what is orphaned below it.
func adopt() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// killBelow ends all processes that descend from pid, and returns when none is alive.
// While they die they may start others: hence the rounds.
func killBelow(pid int) {
	for range 100 {
		alive := below(pid)
		if len(alive) == 0 {
			return
		}
		for _, p := range alive {
			_ = syscall.Kill(p, syscall.SIGKILL)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// reap takes leave of the adopted that have ended: nobody else waits for them.
func reap(pid int) {
	children, ended := family()
	for _, c := range children[pid] {
		if ended[c] {
			_, _ = syscall.Wait4(c, nil, syscall.WNOHANG, nil)
		}
	}
}

// below lists the living descendants of a process.
func below(pid int) []int {
	children, ended := family()
	var out []int
	for open := children[pid]; len(open) > 0; open = open[1:] {
		if p := open[0]; !ended[p] {
			out = append(out, p)
		}
		open = append(open, children[open[0]]...)
	}
	return out
}

// family is every process' children, and which processes have ended and wait for
// their parent to notice.
func family() (children map[int][]int, ended map[int]bool) {
	children, ended = map[int][]int{}, map[int]bool{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if parent, state, ok := parseStat(text); err == nil && ok {
			children[parent] = append(children[parent], pid)
			ended[pid] = state == 'Z' || state == 'X'
		}
	}
	return children, ended
}

// parseStat reads a /proc/PID/stat. The name in it may hold anything, brackets too.
func parseStat(text []byte) (parent int, state byte, ok bool) {
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return 0, 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return parent, fields[0][0], err == nil
}

// memoryFree is what the machine can still give, in bytes; 0: not known.
func memoryFree() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if f := bytes.Fields(line); len(f) > 1 && string(f[0]) == "MemAvailable:" {
			kib, _ := strconv.ParseInt(string(f[1]), 10, 64)
			return kib << 10
		}
	}
	return 0
}
