package bench

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// child is this program once more, for a part of a benchmark that must not share a
// process with the rest. It reads lines, answers in lines, and ends with its input. The
// kernel ends it with the thread that started it, so that must be locked and live.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startChild(args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self, args...)}
	c.cmd.Stderr, c.cmd.SysProcAttr = os.Stderr, endWithParent()
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	return c, nil
}

// line is what it says next.
func (c *child) line(name string) (string, error) {
	line, err := c.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the %s process ended (its own words are above): %w", name, err)
	}
	return strings.TrimSpace(line), nil
}

// endMax is how long a child may take to end.
const endMax = 10 * time.Second

// end closes its input and waits until it has ended.
func (c *child) end() error {
	c.in.Close()
	kill := time.AfterFunc(endMax, func() { _ = c.cmd.Process.Kill() }) // ended by itself: fine
	defer kill.Stop()
	return c.cmd.Wait()
}
