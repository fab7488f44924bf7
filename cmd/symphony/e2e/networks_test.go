package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// farther is a scheduler and backends on hosts of a lab. The frontends come and go.
type farther struct {
	*lab
	scheduler *space
	log       *lockedBuffer // the scheduler's
	backends  []*space
	repo      string
}

const schedulerIP = "10.99.0.1"

// newFarther starts them; frontends that take part are far from all of these.
func newFarther(t *testing.T) *farther {
	t.Helper()
	f := &farther{lab: newLab(t), repo: emulatedRepository(t, emulated{"m", 1, 5, "4s"})}
	f.scheduler = f.host("s", schedulerIP)
	f.log = f.scheduler.start("scheduler", "scheduler", "--listen", "tcp:0.0.0.0:9000").log
	for i := range 2 {
		f.backend(f.host(fmt.Sprint("b", i), fmt.Sprint("10.99.0.", 7+i)), schedulerIP)
	}
	return f
}

// backend starts one with a device at a host.
func (f *farther) backend(at *space, scheduler string) {
	f.t.Helper()
	path := write(f.t, "backend:\n  pools: [{device_type: emulated, kind: emulated, devices: 1}]\n")
	at.start(at.name, "backend", "-c", path, "--scheduler", "tcp:"+scheduler+":9000", "--repository", f.repo, "--name", at.name, "--metrics", ":9100")
	f.backends = append(f.backends, at)
}

// frontend starts one with the address that all of them are given.
func (f *farther) frontend(at *space, scheduler string, flags ...string) *process {
	f.t.Helper()
	return at.start("frontend "+at.name, append([]string{"frontend", "--scheduler", "tcp:" + scheduler + ":9000", "--http", "127.0.0.1:8000",
		"--listen", "tcp:0.0.0.0:4000", "--name", at.name}, flags...)...)
}

// ready waits until the frontend at a host serves, and all backends have joined.
func (f *farther) ready(at *space) {
	f.t.Helper()
	eventually(f.t, 60*time.Second, at.name+" is ready", func() error {
		if n := strings.Count(f.log.String(), "backend joined"); n < len(f.backends) {
			return fmt.Errorf("%d backends have joined", n)
		}
		code, body, err := at.get("http://127.0.0.1:8000/v2/models/m/ready")
		if err != nil || code != 200 {
			return fmt.Errorf("%d %s %v", code, body, err)
		}
		return nil
	})
}

// serve sends requests to the frontends of all the hosts at a time; each is answered, and
// each backend has run some.
func (f *farther) serve(hosts ...*space) {
	f.t.Helper()
	const clients, each = 8, 25
	before := f.batches()
	var wait sync.WaitGroup
	for _, at := range hosts {
		f.ready(at)
		for range clients {
			wait.Go(func() {
				for range each {
					if err := at.infer(); err != nil {
						f.t.Errorf("frontend %s: %v", at.name, err)
						return
					}
				}
			})
		}
	}
	wait.Wait()
	for i, n := range f.batches() {
		if n <= before[i] {
			f.t.Errorf("backend %s ran nothing", f.backends[i].name)
		}
	}
}

// batches are those that the backends have run.
func (f *farther) batches() []float64 {
	f.t.Helper()
	var out []float64
	for _, b := range f.backends {
		eventually(f.t, 30*time.Second, "metrics of "+b.name, func() error {
			code, body, err := b.get("http://127.0.0.1:9100/metrics")
			if err != nil || code != 200 {
				return errors.Join(err, fmt.Errorf("status %d", code))
			}
			n, err := sum(body, "symphony_backend_batches_total")
			if err == nil {
				out = append(out, n)
			}
			return err
		})
	}
	return out
}

// infer asks the frontend at this host.
func (s *space) infer() error {
	body := `{"inputs":[{"name":"input","datatype":"FP32","shape":[1,8],"data":[1,2,3,4,5,6,7,8]}]}`
	resp, err := s.http.Post("http://127.0.0.1:8000/v2/models/m/infer", "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || !bytes.Contains(reply, []byte(`"output"`)) {
		return fmt.Errorf("status %d, %v: %s", resp.StatusCode, err, reply)
	}
	return nil
}

// TestFrontendsOnAllAddresses: two frontends on different hosts that listen on the same
// port of 0.0.0.0 are two. When one has left, the other is served on.
func TestFrontendsOnAllAddresses(t *testing.T) {
	beside(t)
	f := newFarther(t)
	one, two := f.host("f1", "10.99.0.3"), f.host("f2", "10.99.0.4")
	f.frontend(one, schedulerIP)
	f.ready(one)
	second := f.frontend(two, schedulerIP)
	f.serve(one, two)
	if code := second.end(syscall.SIGTERM); code != 0 {
		t.Errorf("the second ended with status %d", code)
	}
	f.serve(one)
}

// TestFrontendBesideScheduler: a frontend that reaches its scheduler over 127.0.0.1 and
// listens on 0.0.0.0 is found by backends on its own host and by those on others.
func TestFrontendBesideScheduler(t *testing.T) {
	beside(t)
	f := newFarther(t)
	f.backend(f.scheduler, "127.0.0.1")
	far := f.host("f1", "10.99.0.3")
	f.frontend(f.scheduler, "127.0.0.1")
	f.frontend(far, schedulerIP)
	f.serve(f.scheduler, far)
}

// TestFrontendsBehindOneAddress: two frontends on hosts that nobody can dial, seen at one
// address that is neither's own. What they advertise tells them apart.
func TestFrontendsBehindOneAddress(t *testing.T) {
	beside(t)
	f := newFarther(t)
	const gate = "10.99.0.9"
	f.gate(gate, forward{4001, "192.168.7.2:4000"}, forward{4002, "192.168.7.3:4000"})
	one, two := f.inner("f1", "192.168.7.2"), f.inner("f2", "192.168.7.3")
	f.frontend(one, schedulerIP, "--advertise", "tcp:"+gate+":4001")
	f.frontend(two, schedulerIP, "--advertise", "tcp:"+gate+":4002")
	f.serve(one, two)
}
