package parts

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

// process is one of a test's parts, with these keys.
func process(t *testing.T, keys ...config.Set) *Process {
	t.Helper()
	base := []config.Set{{Key: "log.level", Value: "error"}, {Key: "rdma.mode", Value: "never"}, {Key: "tcp.kernel_rtt", Value: "never"},
		{Key: "frontend.http", Value: "127.0.0.1:0"}, {Key: "frontend.arena", Value: "8MiB"}, {Key: "drain", Value: "2s"}}
	cfg, err := config.Load("", append(base, keys...), nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// ask sends a request and wants a status, with a text in the body; it returns the headers.
func ask(t *testing.T, method, url, body string, status int, text string) http.Header {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status || !strings.Contains(string(b), text) {
		t.Errorf("%s %s: %d %.300s, %v; want %d with %q", method, url, resp.StatusCode, b, err, status, text)
	}
	return resp.Header
}

// A frontend serves HTTP before it has a scheduler, and before there is a model: it is
// live and says why it is not ready, and requests are answered, to be tried again.
func TestHTTPBeforeTheScheduler(t *testing.T) {
	reserved, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := "tcp:" + reserved.Addr().String()
	reserved.Close() // nobody listens there now
	p := process(t, config.Set{Key: "frontend.scheduler", Value: at}, config.Set{Key: "scheduler.listen", Value: at}, config.Set{Key: "backend.scheduler", Value: at})
	client, err := p.Client()
	if err != nil {
		t.Fatal(err)
	}
	web, err := p.Ingress(client)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := p.DrainContext()
		defer cancel()
		if err := errors.Join(web.Drain(ctx), client.Drain(ctx)); err != nil {
			t.Error(err)
		}
	}()
	url := "http://" + web.Address
	infer := func(status int, text string) http.Header {
		return ask(t, "POST", url+"/v2/models/m/infer", `{"inputs":[{"name":"input","shape":[8],"datatype":"FP32","data":[1,2,3,4,5,6,7,8]}]}`, status, text)
	}
	ask(t, "GET", url+"/v2/health/live", "", 200, "true")
	ask(t, "GET", url+"/v2/health/ready", "", 503, "the scheduler cannot be reached")
	if h := infer(503, "the scheduler has not been reached yet"); h.Get("Retry-After") != "1" || h.Get("X-Symphony-Reason") != "unavailable" {
		t.Errorf("headers %v", h)
	}

	s, err := p.Scheduler()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := client.WaitAdmitted(ctx); err != nil {
		t.Fatal(err)
	}
	ask(t, "GET", url+"/v2/health/ready", "", 503, "no backend serves any model yet")

	models := filepath.Join(t.TempDir(), "zoo.csv")
	if err := os.WriteFile(models, []byte("model,alpha_ms,beta_ms,slo_ms\nm,0.1,1,500\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.cfg.Backend.Pools = []config.Pool{{DeviceType: "e", Kind: "emulated", Devices: 1, Zoo: []config.Zoo{{CSV: models}}}}
	b, err := p.Backend(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Drain(ctx)
	if err := client.WaitReady(ctx, "m"); err != nil {
		t.Fatal(err)
	}
	ask(t, "GET", url+"/v2/health/ready", "", 200, "true")
	infer(200, "outputs")
}

// metrics and frontend.admin are addresses of their own.
func TestAddressesOfTheirOwn(t *testing.T) {
	p := process(t, config.Set{Key: "metrics", Value: "127.0.0.1:0"}, config.Set{Key: "frontend.admin", Value: "127.0.0.1:0"},
		config.Set{Key: "scheduler.listen", Value: "inproc:apart"}, config.Set{Key: "frontend.scheduler", Value: "inproc:apart"}, config.Set{Key: "frontend.listen", Value: "inproc:frontend"})
	client, err := p.Client()
	if err != nil {
		t.Fatal(err)
	}
	web, err := p.Ingress(client)
	if err != nil {
		t.Fatal(err)
	}
	main, metrics, admin := "http://"+web.Address, "http://"+web.Metrics, "http://"+web.Admin
	ask(t, "GET", main+"/metrics", "", 404, "an address of its own")
	ask(t, "GET", main+"/v2/models/stats", "", 404, "an address of its own")
	ask(t, "POST", main+"/v2/repository/index", "", 404, "an address of its own")
	ask(t, "GET", main+"/v2/health/live", "", 200, "true")
	ask(t, "GET", metrics+"/metrics", "", 200, "symphony_http_requests_total")
	ask(t, "GET", metrics+"/metrics", "", 200, "go_goroutines")
	ask(t, "GET", metrics+"/v2/models/stats", "", 200, "model_stats")
	ask(t, "POST", metrics+"/v2/repository/index", "", 404, "only /metrics")
	ask(t, "POST", admin+"/v2/repository/index", "", 200, "[]")
	ask(t, "POST", admin+"/v2/models/m/infer", "{}", 404, "only the repository")
	ctx, cancel := p.DrainContext()
	defer cancel()
	if err := errors.Join(web.Drain(ctx), client.Drain(ctx)); err != nil {
		t.Error(err)
	}
}
