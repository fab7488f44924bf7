package soak

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// starter starts processes. On Linux the kernel ends a process with the thread that
// started it, so all are started by one thread that lives as long as they may.
type starter struct {
	attr *syscall.SysProcAttr
	jobs chan func()
}

func newStarter(attr *syscall.SysProcAttr) *starter {
	s := &starter{attr: attr, jobs: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for f := range s.jobs {
			f()
		}
	}()
	return s
}

// end lets the thread go, and with it what still runs.
func (s *starter) end() { close(s.jobs) }

// process is one life of a part.
type process struct {
	cmd  *exec.Cmd
	log  *lastBytes
	done chan struct{} // closed when it has ended

	mu     sync.Mutex // Guards wanted.
	wanted bool       // that it ends
}

func (s *starter) start(binary string, args []string) (*process, error) {
	p := &process{cmd: exec.Command(binary, args...), log: &lastBytes{}, done: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = environ(), p.log, p.log, s.attr
	err := make(chan error)
	s.jobs <- func() { err <- p.cmd.Start() }
	if err := <-err; err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // how it ended stands in ProcessState
		close(p.done)
	}()
	return p, nil
}

// environ is ours without configuration: a soak is what its flags say.
func environ() []string {
	var out []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "SYMPHONY_") {
			out = append(out, kv)
		}
	}
	return out
}

func (p *process) want() {
	p.mu.Lock()
	p.wanted = true
	p.mu.Unlock()
}

// endedByItself is whether it is gone and nobody wanted that.
func (p *process) endedByItself() bool {
	select {
	case <-p.done:
	default:
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.wanted
}

func (p *process) kill() {
	p.want()
	_ = p.cmd.Process.Kill() // gone already: fine
	<-p.done
}

func (p *process) signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// endMax is how long a part may take to drain and end.
const endMax = 15 * time.Second

// stop is Ctrl-C; an error says what was wrong with the end.
func (p *process) stop() error {
	if p.endedByItself() {
		return nil // told elsewhere
	}
	p.want()
	if err := p.signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(endMax):
		p.kill()
		return fmt.Errorf("did not end within %v of Ctrl-C", endMax)
	}
	if !p.cmd.ProcessState.Success() {
		return fmt.Errorf("ended with %v\n%s", p.cmd.ProcessState, p.log)
	}
	return nil
}

// lastBytes keeps the end of a process's output.
type lastBytes struct {
	mu sync.Mutex
	b  []byte
}

const lastMost = 16 << 10

// Write implements io.Writer.
func (l *lastBytes) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.b = append(l.b, p...); len(l.b) > 2*lastMost {
		l.b = append(l.b[:0], l.b[len(l.b)-lastMost:]...)
	}
	return len(p), nil
}

// String is the last lines.
func (l *lastBytes) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b[max(0, len(l.b)-lastMost):])
}

// freeAddress is a loopback address that was free a moment ago.
func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}
