package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// outing is how a command is tried.
type outing struct {
	args string        // behind the command's name; {tmp} is a folder
	span time.Duration // it goes on until it is interrupted, after so long; 0: it ends by itself
	any  bool          // its exit status says what it found here, or what this machine lacks
}

// lasting are the commands that run from the begin to the end of the test.
func lasting() []string { return []string{"scheduler", "controller", "backend", "frontend"} }

// outings are all other commands, in an order in which they work.
func outings() []struct {
	name string
	outing
} {
	const cut = time.Second // of what computes for long, and would not do anything else later
	return []struct {
		name string
		outing
	}{
		{"model digest", outing{args: "{tmp}/models/digits-cnn"}},
		{"model add", outing{args: "digits-cnn/1 --source file://{tmp}/models/digits-cnn --wait --timeout 60s"}},
		{"model update", outing{args: "digits-cnn --slo 500ms"}},
		{"model list", outing{}},
		{"model show", outing{args: "digits-cnn"}},
		{"model versions", outing{args: "digits-cnn"}},
		{"model share", outing{args: "digits-cnn 1=100"}},
		{"model rollback", outing{args: "digits-cnn"}},
		{"plan show", outing{}},
		{"plan diff", outing{}},
		{"plan pause", outing{}},
		{"plan resume", outing{}},
		{"plan apply", outing{}},
		{"plan history", outing{}},
		{"advice", outing{}},
		{"bench load", outing{args: "--url http://127.0.0.1:8000 --models digits-cnn --rate 50 --duration 2s --warmup 500ms --quiet", any: true}},
		{"top", outing{args: "--once 1s"}},
		{"explain", outing{any: true}},
		{"model remove", outing{args: "digits-cnn"}},
		{"serve", outing{args: "--config examples/quickstart.yaml --http 127.0.0.1:8100 --grpc 127.0.0.1:8101 --admin 127.0.0.1:8103 --set control.http=127.0.0.1:8102 " +
			"--set scheduler.listen=inproc:scheduler --samples examples/digits/images", span: 6 * time.Second}},
		{"profile", outing{args: "digits-cnn --repository {tmp}/models --rounds 2 --seconds 2 --dry-run"}},
		{"partition", outing{args: "--models zoo:8 --clusters 2 --time 500ms --solver 500ms"}},
		{"sim", outing{args: "--models zoo:a100 --gpus 8 --rate 100 --duration 1s --events {tmp}/events.json"}},
		{"ui", outing{args: "{tmp}/events.json --listen 127.0.0.1:0 --no-open", span: cut}},
		{"devices", outing{}},
		{"doctor", outing{any: true}},
		{"rdma list", outing{any: true}},
		{"version", outing{}},
		{"bench overhead", outing{args: "--duration 200ms --rate 200 --loads 50 --quiet"}},
		{"bench cold", outing{args: "--real --models 3 --room 2 --seconds 2 --rounds 1 --repository {tmp}/models --model digits-cnn --quiet", any: true}},
		{"bench scheduler", outing{args: "--rate 1000 --duration 300ms --quiet"}},
		{"bench http", outing{args: "--connections 4 --rounds 1 --span 200ms --quiet"}},
		{"bench newcomers", outing{args: "--rows 1 --span 1s", any: true}},
		{"bench net", outing{args: "--tcp-only --servers 2 --objects 2 --size 1000 --duration 300ms --quiet --out {tmp}/net"}},
		{"bench soak", outing{args: "--duration 4s --warmup 1s --every 1s --slack 20 --quiet", any: true}},
		{"bench gpu", outing{args: "--check", any: true}},
		{"bench peers", outing{args: "--systems symphony --cases one --rates 20 --span 1s --warmup 500ms --sweep-span 500ms --sweep-warmup 500ms --quick --out {tmp}/peers", any: true}},
		{"bench draws", outing{args: "--mixes 1 --seconds 1 --requests 1000 --out {tmp}/draws", span: cut, any: true}},
		{"bench frontier", outing{args: "--quick --out {tmp}/frontier", span: cut, any: true}},
		{"bench fleet", outing{args: "--quick --out {tmp}/fleet", span: cut, any: true}},
		{"bench subclusters", outing{args: "--fit --samples 3 --seeds 1 --requests 1000", span: cut, any: true}},
		{"bench paper", outing{args: "--quick --out {tmp}/paper", span: cut, any: true}},
	}
}

// TestNothingGoesOutside: no command asks a resolver or sends a packet beyond this host, or leaves a
// file below the home directory, by itself. What serves does so with a model in ONNX Runtime, which
// has a telemetry of its own.
func TestNothingGoesOutside(t *testing.T) {
	if testing.Short() {
		t.Skip("runs every command")
	}
	openDirect(t, "digits-cnn") // skips where there is no ONNX Runtime
	a := newAlone(t)
	provesItsEyes(t, a)
	tmp := t.TempDir()
	if out, err := exec.Command("cp", "-r", filepath.Join(root, "examples/digits/models"), tmp).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	began := startParts(a, tmp)
	tried := lasting()
	for _, o := range outings() {
		tried = append(tried, o.name)
		t.Run(o.name, func(t *testing.T) {
			o.args = strings.ReplaceAll(o.args, "{tmp}", tmp)
			goOut(t, a, o.name, o.outing)
			if o.name == "model add" {
				a.infers(t, "http://127.0.0.1:8000", "digits-cnn")
			}
			a.judge(t)
		})
	}
	for _, p := range began {
		select {
		case <-p.done:
			t.Errorf("%s ended by itself: %s", p.name, tail(p.log.String(), 5))
		default:
		}
	}
	for _, p := range slices.Backward(began) {
		p.stop()
	}
	a.judge(t)
	slices.Sort(tried)
	if all := commandsOf(t, a); !slices.Equal(tried, all) {
		t.Errorf("the binary has the commands\n%q, here are\n%q", all, tried)
	}
}

// judge fails where something was sent, or left.
func (a *alone) judge(t *testing.T) {
	t.Helper()
	if out := a.seen.take(); len(out) > 0 {
		t.Errorf("beyond this host: %s", strings.Join(out, "; "))
	}
	if files := a.files(); len(files) > 0 {
		t.Errorf("below the home directory: %q", files)
		os.RemoveAll(a.home)
		os.MkdirAll(a.home, 0o755)
	}
}

// provesItsEyes: a watcher that sees nothing may be blind.
func provesItsEyes(t *testing.T, a *alone) {
	t.Helper()
	for _, to := range []string{"tcp 198.51.100.7:443", "udp " + resolver + ":53", "tcp 127.0.0.1:1", "udp 127.1.2.3:53"} {
		network, address, _ := strings.Cut(to, " ")
		if c, err := a.dial(context.Background(), network, address); err == nil {
			c.Write([]byte("x"))
			c.Close()
		}
	}
	out := strings.Join(a.seen.take(), "; ")
	if !strings.Contains(out, "198.51.100.7, tcp port 443") || !strings.Contains(out, resolver+", udp port 53") || strings.Contains(out, "to 127.") {
		t.Fatalf("the watcher sees %q", out)
	}
}

// startParts starts a cluster of all parts, whose backend has a processor for ONNX Runtime.
func startParts(a *alone, tmp string) []*process {
	t := a.lab.t
	backend := write(t, "backend:\n  cache: %q\n  pools: [{device_type: cpu, kind: cpu, devices: 1, threads: 1}]\n", filepath.Join(tmp, "cache"))
	var out []*process
	begin := func(name string, args ...string) {
		out = append(out, launch(t, name, a.command(append(append([]string{name}, args...), "--log-format", "console")...)))
	}
	begin("scheduler", "--listen", "tcp:127.0.0.1:9000", "--admin", "127.0.0.1:8003")
	begin("controller", "--scheduler", "tcp:127.0.0.1:9000", "--data", filepath.Join(tmp, "etcd"))
	begin("backend", "-c", backend, "--scheduler", "tcp:127.0.0.1:9000", "--name", "b")
	begin("frontend", "--scheduler", "tcp:127.0.0.1:9000", "--http", "127.0.0.1:8000")
	a.lab.t.Cleanup(a.http.CloseIdleConnections)
	eventually(t, 60*time.Second, "the control plane", func() error {
		code, body, err := a.get("http://127.0.0.1:8002/v1/models")
		if err != nil || code != http.StatusOK {
			return fmt.Errorf("%d %s %v", code, body, err)
		}
		return nil
	})
	return out
}

// goOut runs a command to its end.
func goOut(t *testing.T, a *alone, name string, o outing) {
	t.Helper()
	c := a.command(append(strings.Fields(name), strings.Fields(o.args)...)...)
	var out bytes.Buffer
	c.Stdout, c.Stderr, c.SysProcAttr = &out, &out, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := begin(c); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	var end <-chan time.Time
	if o.span > 0 {
		end = time.After(o.span)
	}
	most := time.After(o.span + 2*time.Minute)
	for {
		select {
		case err := <-done:
			if err != nil && o.any {
				t.Logf("%v: %s", err, tail(out.String(), 3))
			} else if err != nil {
				t.Errorf("%v: %s", err, tail(out.String(), 10))
			}
			return
		case <-end:
			c.Process.Signal(os.Interrupt)
		case <-most:
			c.Process.Kill()
			t.Errorf("did not end: %s", tail(out.String(), 10))
			<-done
			return
		}
	}
}

// infers asks a model, so that it has run.
func (a *alone) infers(t *testing.T, url, model string) {
	t.Helper()
	body := fmt.Sprintf(`{"inputs":[{"name":"image","datatype":"FP32","shape":[1,1,8,8],"data":[%s0]}]}`, strings.Repeat("0,", 63))
	eventually(t, 60*time.Second, "an answer", func() error {
		resp, err := a.http.Post(url+"/v2/models/"+model+"/infer", "application/json", strings.NewReader(body))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", resp.Status, text)
		}
		return nil
	})
}

// commandsOf reads the binary's own list of commands.
func commandsOf(t *testing.T, a *alone) []string {
	t.Helper()
	text, err := a.command("--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(string(text), "\nCommands:\n")
	if !ok {
		t.Fatalf("no list of commands in\n%s", text)
	}
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+( [a-z]+)*)(  |$)`).FindAllStringSubmatch(list, -1) {
		out = append(out, m[1])
	}
	slices.Sort(out)
	return out
}
