package rdmae2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cluster is a scheduler, a frontend and a backend, each a process.
type cluster struct {
	t                            *testing.T
	host                         string // that links go to
	scheduler, frontend, backend *process
	port                         struct{ scheduler, schedulerMetrics, http, grpc, backendMetrics int }
	mode                         struct{ scheduler, frontend, backend string } // of rdma.mode
	pool, repository             string
}

// newCluster prepares one with all parts of the same mode. Nothing runs yet.
func newCluster(t *testing.T, mode, repository, pool string) *cluster {
	t.Helper()
	c := &cluster{t: t, host: "127.0.0.1", repository: repository, pool: pool}
	c.mode.scheduler, c.mode.frontend, c.mode.backend = mode, mode, mode
	for _, p := range []*int{&c.port.scheduler, &c.port.schedulerMetrics, &c.port.http, &c.port.grpc, &c.port.backendMetrics} {
		*p = freePort(t)
	}
	return c
}

const clusterToken = "a-token-of-the-tests"

const clusterYAML = `
token: ` + clusterToken + `
rdma: {mode: %s}
tcp: {kernel_rtt: never} # loading the probe takes seconds under emulation
metrics: %q
scheduler: {listen: ["tcp:%s:%d"], margin: 20ms, delay_max: 200ms}
frontend: {scheduler: "tcp:%[3]s:%[4]d", listen: "tcp:%[3]s:0", http: "127.0.0.1:%[5]d", grpc: "127.0.0.1:%[8]d", shared_memory: true, arena: 64MiB}
backend: {name: b, scheduler: "tcp:%[3]s:%[4]d", repository: %[6]q, pools: [%[7]s]}
`

func (c *cluster) config(mode string, metrics int) string {
	at := "" // a frontend's are where its HTTP is
	if metrics > 0 {
		at = fmt.Sprintf("127.0.0.1:%d", metrics)
	}
	return write(c.t, "symphony.yaml", clusterYAML, mode, at, c.host, c.port.scheduler, c.port.http, c.repository, c.pool, c.port.grpc)
}

func (c *cluster) startScheduler() {
	c.scheduler = symphony(c.t, "scheduler", "scheduler", "-c", c.config(c.mode.scheduler, c.port.schedulerMetrics))
	c.answers(c.scheduler, c.port.schedulerMetrics)
}

func (c *cluster) startFrontend() {
	c.frontend = symphony(c.t, "frontend", "frontend", "-c", c.config(c.mode.frontend, 0))
}

func (c *cluster) startBackend() {
	c.backend = symphony(c.t, "backend", "backend", "-c", c.config(c.mode.backend, c.port.backendMetrics))
}

// start starts all and waits for the model.
func (c *cluster) start(model string) {
	c.t.Helper()
	c.startScheduler()
	c.startFrontend()
	c.startBackend()
	c.ready(model)
}

// stop is Ctrl-C for all.
func (c *cluster) stop() {
	c.frontend.stop()
	c.backend.stop()
	c.scheduler.stop()
}

// answers waits for a process's HTTP.
func (c *cluster) answers(p *process, port int) {
	c.t.Helper()
	eventually(c.t, "HTTP of the "+p.name, func() error {
		select {
		case <-p.done:
			c.t.Fatalf("the %s has ended:\n%s", p.name, tail(p.log.String(), 10))
		default:
		}
		_, _, err := get(port, "/metrics")
		return err
	})
}

func (c *cluster) ready(model string) {
	c.t.Helper()
	eventually(c.t, "model "+model, func() error {
		code, body, err := get(c.port.http, "/v2/models/"+model+"/ready")
		if err == nil && code != 200 {
			err = fmt.Errorf("status %d: %s", code, body)
		}
		return err
	})
}

func get(port int, path string) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
	if err != nil {
		return 0, "", err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

var sample = regexp.MustCompile(`(?m)^([a-zA-Z_:]+)(\{[^}]*\})? ([-+0-9.eEInfNa]+)$`)

// metric sums the samples of a metric that have the label; an error while the
// process is away.
func metric(port int, name, label string) (float64, error) {
	code, body, err := get(port, "/metrics")
	if err != nil || code != 200 {
		return 0, errors.Join(err, fmt.Errorf("/metrics: status %d", code))
	}
	sum := 0.0
	for _, m := range sample.FindAllStringSubmatch(body, -1) {
		if v, err := strconv.ParseFloat(m[3], 64); m[1] == name && strings.Contains(m[2], label) && err == nil {
			sum += v
		}
	}
	return sum, nil
}

func mustMetric(t *testing.T, port int, name, label string) float64 {
	t.Helper()
	v, err := metric(port, name, label)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// links waits until a part has so many links over RDMA and TCP.
func (c *cluster) links(port int, rdma, tcp float64) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("%g links over RDMA and %g over TCP", rdma, tcp), func() error {
		a, err := metric(port, "symphony_links", `"rdma"`)
		b, err2 := metric(port, "symphony_links", `"tcp"`)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if a != rdma || b != tcp {
			return fmt.Errorf("%g over RDMA, %g over TCP", a, b)
		}
		return nil
	})
}

// freePort is a port that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
