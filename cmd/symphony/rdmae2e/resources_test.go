package rdmae2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// held is what the kernel holds for RDMA, of all processes.
type held struct{ pd, cq, qp, mr int }

func (h held) String() string { return fmt.Sprintf("pd %d cq %d qp %d mr %d", h.pd, h.cq, h.qp, h.mr) }

// grown reports whether it is not what it was, but for up to so many regions more.
func (h held) grown(from held, regions int) bool {
	return h.pd != from.pd || h.cq != from.cq || h.qp != from.qp || h.mr < from.mr || h.mr > from.mr+regions
}

var resource = regexp.MustCompile(`\b(pd|cq|qp|mr) (\d+)`)

// resources asks the kernel through iproute2's rdma.
func resources(t *testing.T) held {
	t.Helper()
	out, err := exec.Command("rdma", "resource", "show").Output()
	if err != nil {
		t.Fatalf("rdma resource show: %v", err)
	}
	var h held
	to := map[string]*int{"pd": &h.pd, "cq": &h.cq, "qp": &h.qp, "mr": &h.mr}
	for _, m := range resource.FindAllStringSubmatch(string(out), -1) {
		n, _ := strconv.Atoi(m[2])
		*to[m[1]] += n
	}
	return h
}

// settle waits until the kernel holds just so much: it frees behind the calls. Where
// want.mr is negative any number of regions will do.
func settle(t *testing.T, when string, want held) {
	t.Helper()
	var now held
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if now = resources(t); want.mr < 0 {
			now.mr = want.mr
		}
		if now == want {
			return
		}
	}
	t.Errorf("when %s the kernel holds %v, want %v", when, now, want)
}

// steady waits until the kernel holds the same for a while, and says what.
func steady(t *testing.T) held {
	t.Helper()
	last, since := resources(t), time.Now()
	for end := since.Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		now := resources(t)
		switch {
		case now != last:
			last, since = now, time.Now()
		case time.Since(since) > 400*time.Millisecond:
			return now
		}
	}
	t.Errorf("what the kernel holds does not come to rest: %v", last)
	return last
}

// rss is the memory that a process has, in MiB.
func rss(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			n, _ := strconv.Atoi(f[1])
			return n >> 10
		}
	}
	t.Fatalf("process %d has no VmRSS", pid)
	return 0
}

// threads are the states and the ticks of CPU time of a process's threads, by ID.
func threads(t *testing.T, pid int) (states string, ticks map[string]int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("threads of %d: %v", pid, err)
	}
	ticks = map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// proc(5): the name in brackets may hold spaces; then come state (3) ... utime (14), stime (15).
		f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		user, _ := strconv.Atoi(f[11])
		system, _ := strconv.Atoi(f[12])
		states += f[0]
		ticks[filepath.Base(filepath.Dir(file))] = user + system
	}
	return states, ticks
}
