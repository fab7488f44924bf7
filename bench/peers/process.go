package peers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// process is a server's first process; what it starts belongs to it.
type process struct {
	cmd   *exec.Cmd
	log   string
	done  chan struct{} // closed when it has ended
	grace time.Duration // what it gets to end by itself
	left  string        // pattern of files that it may leave behind
}

// launch starts a process in a folder; what it prints goes to a log beside.
func launch(folder string, grace time.Duration, environ []string, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...), log: filepath.Join(folder, "log.txt"), done: make(chan struct{}), grace: grace}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = folder, environ, log, log, withParent()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("does not start: %w", err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended stands in ProcessState
		close(p.done)
	}()
	return p, nil
}

// ended tells how the process ended, if it did.
func (p *process) ended() (string, bool) {
	select {
	case <-p.done:
		text, _ := os.ReadFile(p.log)
		return fmt.Sprintf("ended by itself (%v): %s", p.cmd.ProcessState, lastLine(string(text))), true
	default:
		return "", false
	}
}

// stop asks the process to end, waits for its grace, and kills what is left of it
// and of all that it started.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(p.grace):
	}
	killBelow(os.Getpid())
	<-p.done
	reap(os.Getpid())
	files, _ := filepath.Glob(p.left)
	for _, f := range files {
		_ = os.Remove(f)
	}
}
