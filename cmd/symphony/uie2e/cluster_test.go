package uie2e

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cluster is a scheduler and a backend with emulated GPUs, as processes.
type cluster struct {
	binary    string
	address   string // of the scheduler
	host      string // of its admin address
	admin     string // its URL
	scheduler *exec.Cmd
	backend   *exec.Cmd
}

// free is a port of loopback that nobody has now.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// binary is bin/symphony, or UI_BINARY.
func binary(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(cmp.Or(os.Getenv("UI_BINARY"), "../../../bin/symphony"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// startCluster starts it; flags are further ones of the scheduler.
func startCluster(t *testing.T, gpus int, flags ...string) *cluster {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return startClusterOf(t, fmt.Sprintf("{device_type: emulated-a100, kind: emulated, devices: %d, zoo: [{csv: %q}]}", gpus, filepath.Join(root, "examples/zoo/zoo_a100.csv")), flags...)
}

// startClusterOf starts it with a pool, in YAML.
func startClusterOf(t *testing.T, pool string, flags ...string) *cluster {
	t.Helper()
	c := &cluster{binary: binary(t), address: "tcp:" + free(t), host: free(t)}
	c.admin = "http://" + c.host
	c.scheduler = start(t, c.binary, append([]string{"scheduler", "--listen", c.address, "--admin", c.host}, flags...)...)
	config := filepath.Join(t.TempDir(), "backend.yaml")
	text := "backend:\n  name: emulated\n  pools:\n    - " + pool + "\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c.backend = start(t, c.binary, "backend", "--config", config, "--scheduler", c.address)
	c.ready(t)
	return c
}

// ready waits until the scheduler has models.
func (c *cluster) ready(t *testing.T) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < callMost; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get(c.admin + "/ui/save")
		if err != nil {
			continue // it does not listen yet
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err == nil && bytes.Contains(text, []byte(`"e":"model"`)) {
			return
		}
	}
	t.Fatalf("the scheduler has no models within %v", callMost)
}

// start runs a process until the test ends.
func start(t *testing.T, binary string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(binary, args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		late := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		late.Stop()
		if t.Failed() {
			t.Logf("%v said:\n%.3000s", args, said.String())
		}
	})
	return cmd
}

// load offers requests until the test ends.
func (c *cluster) load(t *testing.T, rate int, flags ...string) {
	t.Helper()
	start(t, c.binary, append([]string{"bench", "load", "--scheduler", c.address, "--rate", strconv.Itoa(rate), "--duration", "20m", "--quiet"}, flags...)...)
}

// symphony is what a command prints.
func (c *cluster) symphony(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(c.binary, args...).Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			t.Fatalf("symphony %v: %v\n%s", args, err, failed.Stderr)
		}
		t.Fatal(err)
	}
	return string(out)
}

// open is symphony ui FILE: the page's address.
func (c *cluster) open(t *testing.T, file string) string {
	t.Helper()
	cmd := exec.Command(c.binary, "ui", file, "--no-open")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, url, ok := strings.Cut(line, " is at ")
	if !ok {
		t.Fatalf("symphony ui says %q", line)
	}
	url, _, _ = strings.Cut(url, " ")
	return url
}

// used is the share of a processor that the scheduler takes for a span, and the backend.
func (c *cluster) used(t *testing.T, span time.Duration) (scheduler, backend float64) {
	t.Helper()
	s, b, begin := ticks(t, c.scheduler), ticks(t, c.backend), time.Now()
	time.Sleep(span)
	s, b = ticks(t, c.scheduler)-s, ticks(t, c.backend)-b
	took := time.Since(begin)
	return float64(s) / float64(took), float64(b) / float64(took)
}

// ticks is a process's processor time so far in ns, summed over its threads.
func ticks(t *testing.T, cmd *exec.Cmd) (sum int64) {
	t.Helper()
	all, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", cmd.Process.Pid))
	if err != nil || len(all) == 0 {
		t.Fatalf("no threads of %v are seen: %v", cmd.Args[:2], err)
	}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		first, _, _ := strings.Cut(string(text), " ")
		n, _ := strconv.ParseInt(first, 10, 64)
		sum += n
	}
	return sum
}
