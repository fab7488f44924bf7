package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

// etcdEnv makes the test binary an etcd of its own, with its command line.
const etcdEnv = "SYMPHONY_E2E_ETCD"

func serveEtcd() { etcdmain.Main(os.Args) }

// etcd is one as a process, with its files in a folder, so that it can be killed and started
// again.
type etcd struct {
	*process
	dir, endpoint string
}

func newEtcd(t *testing.T) *etcd {
	t.Helper()
	e := &etcd{dir: t.TempDir(), endpoint: "http://" + hostPort(freePort(t))}
	e.start(t)
	e.answers(t)
	return e
}

func (e *etcd) start(t *testing.T) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "--name=e2e", "--data-dir="+e.dir, "--listen-client-urls="+e.endpoint, "--advertise-client-urls="+e.endpoint,
		"--listen-peer-urls=unix://"+filepath.Join(e.dir, "peer"), "--log-level=warn")
	cmd.Env = append(os.Environ(), etcdEnv+"=1")
	e.process = launch(t, "etcd", cmd)
}

// answers waits until it serves.
func (e *etcd) answers(t *testing.T) {
	t.Helper()
	eventually(t, 60*time.Second, "etcd answers", func() error {
		code, body, err := get(e.endpoint + "/health")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%d %s", code, body)
		}
		return err
	})
}

// TestEtcdAway: an etcd of its own is killed under load, longer than a leader's lease, and
// started again. No request notices; an order meanwhile fails with what to do, or waits as
// long as it is told to; and all is taken up again soon after.
func TestEtcdAway(t *testing.T) {
	beside(t)
	e := newEtcd(t)
	models := many(8, "400ms")
	p := startPlanned(t, []string{"--endpoints", e.endpoint, "--set", "control.lease=5s"}, 2, 2, models...)
	f := p.trafficOf(epochRate()/2, names(models)...)
	time.Sleep(span(4*time.Second, 10*time.Second))
	machine, before, left := watch(t), time.Now(), f.started()
	e.kill()
	p.refused(t)
	late := p.lateOrder()
	time.Sleep(span(10*time.Second, time.Minute) - time.Since(before))
	if out, err := p.order("plan", "show", "--patience", "0s"); err == nil || !strings.Contains(out, "what is served goes on") || !strings.Contains(out, "away") {
		t.Errorf("while etcd is away: %v\n%s", err, out)
	}
	e.start(t)
	e.answers(t)
	back := time.Now()
	select {
	case err := <-late:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(60 * time.Second):
		t.Fatal("what was ordered while etcd was away is not served")
	}
	taken := time.Since(back)
	p.waitServed("late")
	f.stop(t)
	control, _, _ := f.share(left, before)
	bad, all, reasons := f.share(before, time.Now())
	most := 0.0
	if !full() {
		most = 0.001 + control + machine.pardon(t, 400*time.Millisecond)
	}
	t.Logf("%.0f s without etcd: of %d requests %.4f are bad: %v; %.4f before; the order that waited is served %v after etcd's return", back.Sub(before).Seconds(), all, bad, reasons, control, taken.Round(time.Millisecond))
	if bad > most {
		t.Errorf("of %d requests while etcd was away %.4f are bad: %v", all, bad, reasons)
	}
	if taken > span(20*time.Second, 5*time.Second) {
		t.Errorf("what was ordered meanwhile is served %v after etcd's return", taken)
	}
}

// refused orders a model that nobody can keep now.
func (p *planned) refused(t *testing.T) {
	t.Helper()
	begin := time.Now()
	out, err := p.order("model", "add", "refused/1", "--source", p.source(emulated{"refused", 1, 5, "400ms"}, 1), "--patience", "0s")
	if err == nil {
		t.Error("a model was added though there is no etcd")
	}
	for _, want := range []string{"etcd at http://", "what is served goes on", "start etcd"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in: %s", want, out)
		}
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

// lateOrder orders a model with patience: it is served when etcd is back.
func (p *planned) lateOrder() <-chan error {
	source, done := p.source(emulated{"late", 1, 5, "400ms"}, 1), make(chan error, 1)
	go func() {
		out, err := p.order("model", "add", "late/1", "--source", source, "--patience", "3m", "--wait", "--timeout", "3m")
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		done <- err
	}()
	return done
}

// started is when the first request left.
func (f *traffic) started() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.answers) == 0 {
		return time.Now()
	}
	return f.answers[0].Intended.Std()
}
