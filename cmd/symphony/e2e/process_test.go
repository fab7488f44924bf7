package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// symphony is the binary under test, built by TestMain.
var symphony string

const root = "../../.."

func TestMain(m *testing.M) {
	if path := os.Getenv(fakeGPUsEnv); path != "" {
		if err := serveFakeGPUs(path); err != nil {
			fmt.Fprintln(os.Stderr, "backend on fake GPUs:", err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(etcdEnv) != "" {
		serveEtcd()
		return
	}
	dir, err := os.MkdirTemp("", "symphony-e2e")
	if err != nil {
		panic(err)
	}
	symphony = filepath.Join(dir, "symphony")
	build := exec.Command("go", "build", "-o", symphony, "./cmd/symphony")
	build.Dir, build.Stderr = root, os.Stderr
	code := 1
	if err := build.Run(); err == nil {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// process is one running part.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	log  *lockedBuffer
	done chan struct{}
}

// lockedBuffer keeps a process's output; os/exec writes while tests read.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs `symphony args...` from the tree's root until the test ends.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	return launch(t, name, exec.Command(symphony, append(args, logFormat(args)...)...))
}

// launch is start for any command.
func launch(t *testing.T, name string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: cmd, log: &lockedBuffer{}, done: make(chan struct{})}
	p.cmd.Dir = root
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	// A test that dies must not leave processes behind.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := begin(p.cmd); err != nil {
		t.Fatal(err)
	}
	go func() { p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("---- %s\n%s", name, tail(p.log.String(), 60))
		}
	})
	return p
}

// begin starts a command on a thread that lives as long as the tests: Pdeathsig is sent when the
// thread ends that made the process, and those that were in another network namespace do end.
func begin(cmd *exec.Cmd) error {
	err := make(chan error)
	beginner() <- func() { err <- cmd.Start() }
	return <-err
}

var beginner = sync.OnceValue(func() chan<- func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread() // and never unlocked
		for f := range calls {
			f()
		}
	}()
	return calls
})

// kill is kill -9; it returns when the process is gone.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// stop is Ctrl-C; it returns the exit status.
func (p *process) stop() int {
	p.t.Helper()
	return p.end(os.Interrupt)
}

// end sends a signal that asks the process to end; it returns the exit status.
func (p *process) end(signal os.Signal) int {
	p.t.Helper()
	p.cmd.Process.Signal(signal)
	select {
	case <-p.done:
	case <-time.After(15 * time.Second):
		p.t.Errorf("%s did not end within 15 s of the signal %v", p.name, signal)
		p.kill()
	}
	return p.cmd.ProcessState.ExitCode()
}

func tail(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}

// run runs a command of symphony to its end and returns its output.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(symphony, args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// freePort is a port that was free a moment ago, below those that the kernel gives to
// connections: one of those may be taken before its process listens.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 12000 + rand.IntN(20000)
		if _, given := freePorts.LoadOrStore(port, true); given {
			continue
		}
		if l, err := net.Listen("tcp", hostPort(port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

var freePorts sync.Map // that were given

func hostPort(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// eventually waits until f returns nil, at most span.
func eventually(t *testing.T, span time.Duration, what string, f func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not within %v: %v", what, span, err)
}

// waitReady waits until the ingress says that it and the models are ready.
func waitReady(t *testing.T, http string, models ...string) {
	t.Helper()
	eventually(t, 90*time.Second, "ready", func() error {
		for _, path := range append([]string{"/v2/health/ready"}, modelPaths(models)...) {
			if code, body, err := get("http://" + http + path); err != nil || code != 200 {
				return fmt.Errorf("%s: %d %s %v", path, code, body, err)
			}
		}
		return nil
	})
}

func modelPaths(models []string) []string {
	var out []string
	for _, m := range models {
		out = append(out, "/v2/models/"+m+"/ready")
	}
	return out
}

func get(url string) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// metric sums the samples of a metric whose labels contain all of want.
func metric(t *testing.T, http, name string, want ...string) float64 {
	t.Helper()
	v, err := readMetric(http, name, want...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var sample = regexp.MustCompile(`(?m)^([a-zA-Z_:]+)(\{[^}]*\})? ([-+0-9.eEInfNa]+)$`)

func readMetric(http, name string, want ...string) (float64, error) {
	code, body, err := get("http://" + http + "/metrics")
	if err != nil || code != 200 {
		return 0, errors.Join(err, fmt.Errorf("/metrics: status %d", code))
	}
	return sum(body, name, want...)
}

// sum adds up the samples of a metric in a scrape.
func sum(body, name string, want ...string) (float64, error) {
	total := 0.0
next:
	for _, m := range sample.FindAllStringSubmatch(body, -1) {
		if m[1] != name {
			continue
		}
		for _, w := range want {
			if !strings.Contains(m[2], w) {
				continue next
			}
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return 0, err
		}
		total += v
	}
	return total, nil
}

// beside lets a test run beside others that wait as it does, and load the machine as little:
// what the machine makes late the bounds of a short run bear. In the full run, and where
// much is sent, a test has the machine for itself.
func beside(t *testing.T) {
	if !full() {
		t.Parallel()
	}
}

// full asks for the spans and bounds that the project claims.
func full() bool { return os.Getenv("SYMPHONY_E2E_FULL") != "" }

// span is short by default and long on request.
func span(short, long time.Duration) time.Duration {
	if full() {
		return long
	}
	return short
}

// tolerance is the share of bad requests that a test bears: as claimed in the
// full run, more in the short one, where one pause of a busy machine counts much.
func tolerance(short, claimed float64) float64 {
	if full() {
		return claimed
	}
	return short
}

// prompt is how soon a part that came back must be in use: as claimed in the full
// run, later in the short one.
func prompt() time.Duration { return span(8*time.Second, 2*time.Second) }

// logFormat makes parts log for people; bench has no such flag.
func logFormat(args []string) []string {
	if args[0] == "bench" {
		return nil
	}
	return []string{"--log-format", "console"}
}

// post sends a body with headers (name, value, ...) and reads the reply.
func post(t *testing.T, url string, body []byte, headers ...string) (int, http.Header, []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, reply
}
