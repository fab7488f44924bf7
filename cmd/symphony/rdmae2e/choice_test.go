package rdmae2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Who shall do without RDMA talks TCP with the others, who use it between them.
func TestNeverAndAuto(t *testing.T) {
	need(t)
	c := newCluster(t, "auto", emulated(t), emulatedPool)
	c.mode.frontend = "never"
	c.start(modelName)
	f := c.traffic()
	f.flow(t, "over TCP", 10)
	c.end(f)
	c.links(c.port.http, 0, 2)           // the scheduler's, and the backend's
	c.links(c.port.backendMetrics, 1, 1) // the scheduler's; the frontend's
	at := c.port.backendMetrics
	rdma, tcp := mustMetric(t, at, "symphony_input_read_bytes_total", `"rdma"`), mustMetric(t, at, "symphony_input_read_bytes_total", `"tcp"`)
	say("a frontend without RDMA, a backend with it: %g bytes of input by RDMA, %g over TCP", rdma, tcp)
	if rdma != 0 || tcp < 10*inputSize {
		t.Errorf("%g bytes by RDMA, %g over TCP", rdma, tcp)
	}
	if line := c.frontend.log.line("RDMA: not used, as configured"); line == "" {
		t.Error("the frontend does not say that it does without")
	}
	c.stop()
}

// Who refuses to do without RDMA refuses a scheduler that has none, and says so.
func TestAlwaysMeetsNever(t *testing.T) {
	need(t)
	c := newCluster(t, "always", emulated(t), emulatedPool)
	c.mode.scheduler = "never"
	c.startScheduler()
	c.startBackend()
	eventually(t, "the refusal", func() error {
		if c.backend.log.line("rdma.mode is always here") == "" {
			return fmt.Errorf("the backend's log does not have it")
		}
		return nil
	})
	c.backend.stop()
	c.scheduler.stop()
}

// To demand RDMA where there is none is an error at once, that says what to do.
func TestAlwaysWithoutDevice(t *testing.T) {
	need(t)
	for _, part := range []string{"scheduler", "frontend", "backend"} {
		c := newCluster(t, "always", emulated(t), emulatedPool)
		p := symphony(t, part, part, "-c", c.config("always", 0), "--set", "rdma.device=nosuch")
		select {
		case <-p.done:
		case <-time.After(20 * time.Second):
			t.Fatalf("the %s runs without the device that it demands", part)
		}
		text := strings.TrimSpace(p.log.String())
		if p.cmd.ProcessState.ExitCode() == 0 || !strings.Contains(text, "rdma.mode is always") || !strings.Contains(text, "no device nosuch") {
			t.Errorf("%s: status %d: %s", part, p.cmd.ProcessState.ExitCode(), text)
		}
		if part == "scheduler" {
			say("always without the device: status %d: %s", p.cmd.ProcessState.ExitCode(), text)
		}
	}
}
