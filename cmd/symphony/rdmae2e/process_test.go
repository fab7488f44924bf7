package rdmae2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is one running process of a test.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	log  *output
	done chan struct{}
}

// output keeps what a process says; os/exec writes while tests read.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// line is the first that holds all the words; empty: there is none.
func (o *output) line(words ...string) string {
next:
	for line := range strings.Lines(o.String()) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue next
			}
		}
		return strings.TrimSpace(line)
	}
	return ""
}

// launch starts a command; at the test's end it is killed, and its log shown if
// the test has failed.
func launch(t *testing.T, name string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: cmd, log: &output{}, done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p.log
	}
	cmd.Stderr = p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		p.kill()
		p.keepLog()
	})
	return p
}

// keepLog shows the log if the test has failed, and leaves it in SYMPHONY_RDMA_OUT,
// where there is such a folder (make test-rdma: build/rdma/out).
func (p *process) keepLog() {
	if p.t.Failed() {
		p.t.Logf("---- %s\n%s", p.name, tail(p.log.String(), 40))
	}
	if dir := os.Getenv("SYMPHONY_RDMA_OUT"); dir != "" {
		name := fmt.Sprintf("%s-%s-%d.log", strings.ReplaceAll(p.t.Name(), "/", "-"), p.name, p.pid())
		if err := os.WriteFile(filepath.Join(dir, name), []byte(p.log.String()), 0o644); err != nil {
			p.t.Log(err)
		}
	}
}

// symphony starts one of its parts.
func symphony(t *testing.T, name string, args ...string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append(args, "--log-format", "console")...)
	cmd.Dir = root
	// SYMPHONY_ is what its configuration's keys begin with.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SYMPHONY_") })
	return launch(t, name, cmd)
}

// kill is kill -9; it returns when the process is gone.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// stop is Ctrl-C.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGINT)
	select {
	case <-p.done:
	case <-time.After(15 * time.Second):
		p.t.Errorf("%s did not end within 15 s of Ctrl-C", p.name)
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%s: %v: %v", p.name, s, err)
	}
}

// freeze is SIGSTOP; it returns when every thread stands still.
func (p *process) freeze() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	eventually(p.t, "all threads of "+p.name+" stand still", func() error {
		if states, _ := threads(p.t, p.pid()); strings.Trim(states, "T") != "" {
			return fmt.Errorf("they are in %s", states)
		}
		return nil
	})
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func tail(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// eventually waits for what must happen on a slow machine, too.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not within 30 s: %v", what, err)
}

// write puts text into a file of the test's own.
func write(t *testing.T, name, format string, args ...any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, fmt.Appendf(nil, format, args...), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
