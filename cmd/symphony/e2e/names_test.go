package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestTwoBackendsOfOneName: the second is told why it is refused, says so a few times at
// most, and takes over when the first has left. The first notices nothing.
func TestTwoBackendsOfOneName(t *testing.T) {
	beside(t)
	c := newCluster(t, emulated{"m", 1, 5, "2s"})
	first, _ := c.backend("twin", 1)
	c.dial("m")
	c.waitGPUs("m", 1, 10*time.Second)
	load := c.traffic("m", 50)
	second, _ := c.backend("twin", 2)
	why := "is connected already"
	second.says(t, 10*time.Second, why)
	time.Sleep(3 * time.Second)
	for _, p := range []*process{second, c.scheduler} {
		if n := p.lines(why) + p.lines("lost the scheduler"); n > 6 {
			t.Errorf("%s wrote %d lines of a refusal within 3 s", p.name, n)
		}
	}
	c.waitGPUs("m", 1, span(10*time.Second, time.Second))
	if n := first.lines("lost the scheduler"); n != 0 || c.scheduler.lines("backend joined") != 1 {
		t.Errorf("the first lost its link %d times", n)
	}
	load.stop(t)
	if reasons := load.between(time.Time{}, time.Now()); badOf(reasons) != 0 {
		t.Errorf("beside a refused backend requests are bad: %v", reasons)
	}
	first.end(syscall.SIGTERM)
	second.says(t, 10*time.Second, "admitted by the scheduler")
	c.waitGPUs("m", 2, span(10*time.Second, time.Second))
}

// TestRestartedAtOnce: a backend that was killed, or hangs, does not keep the one that is
// started in its place out; nor does one that comes to itself again.
func TestRestartedAtOnce(t *testing.T) {
	beside(t)
	c := newCluster(t, emulated{"m", 1, 5, "2s"})
	back := span(10*time.Second, 3*time.Second)
	last, _ := c.backend("b", 1)
	c.dial("m")
	for range 3 {
		last.kill()
		last, _ = c.backend("b", 1)
		last.says(t, back, "admitted by the scheduler")
		c.waitGPUs("m", 1, span(10*time.Second, time.Second))
	}
	hung := last
	hung.cmd.Process.Signal(syscall.SIGSTOP)
	last, _ = c.backend("b", 1)
	last.says(t, back, "admitted by the scheduler")
	hung.cmd.Process.Signal(syscall.SIGCONT)
	hung.says(t, 10*time.Second, "is connected already")
	if n := last.lines("lost the scheduler"); n != 0 {
		t.Errorf("the one that is there now lost its link %d times", n)
	}
}

// lines counts those of the log with the text.
func (p *process) lines(text string) int {
	n := 0
	for line := range strings.Lines(p.log.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// says waits until the process has logged the text.
func (p *process) says(t *testing.T, within time.Duration, text string) {
	t.Helper()
	eventually(t, within, fmt.Sprintf("%s says %q", p.name, text), func() error {
		if p.lines(text) == 0 {
			return fmt.Errorf("it says:\n%s", tail(p.log.String(), 5))
		}
		return nil
	})
}
