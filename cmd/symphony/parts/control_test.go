package parts

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/client"
	"github.com/symphony-serving/symphony/scheduler/control/store"
	"github.com/symphony-serving/symphony/transport/mono"
)

// nobody is an address where nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// elsewhere is a process whose control plane keeps its state in an etcd elsewhere.
func elsewhere(t *testing.T, etcd string) (*Process, *lines) {
	t.Helper()
	cfg := config.Default()
	cfg.RDMA.Mode, cfg.TCP.KernelRTT = "never", "never"
	cfg.Scheduler.Listen, cfg.Frontend.Listen, cfg.Frontend.Arena, cfg.Frontend.HTTP = []string{"inproc:s"}, "inproc:f", 16<<20, "127.0.0.1:0"
	cfg.Frontend.Scheduler, cfg.Backend.Scheduler, cfg.Control.Scheduler = config.Addresses{"inproc:s"}, "inproc:s", config.Addresses{"inproc:s"}
	cfg.Control.Endpoints, cfg.Control.HTTP, cfg.Control.Lease = []string{"http://" + etcd}, "127.0.0.1:0", 2*mono.Second
	cfg.Backend.Pools = []config.Pool{{DeviceType: "e", Kind: "emulated", Devices: 1, Zoo: []config.Zoo{{CSV: "../../../examples/zoo/zoo_a100.csv", Models: []string{"ResNet50"}}}}}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	log := &lines{}
	p.Log = zerolog.New(log)
	return p, log
}

// gauge is a metric of a system without labels.
func gauge(t *testing.T, address, name string) string {
	t.Helper()
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// A system whose etcd is not there yet serves what its backends have; its control plane says why it
// does not answer, in the API, in one line, and in a metric, and takes up its work when etcd comes.
func TestServeBeforeItsEtcd(t *testing.T) {
	etcd := nobody(t)
	p, log := elsewhere(t, etcd)
	s, err := p.Serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Drain(); err != nil {
			t.Error(err)
		}
	}()
	if err := s.Client.WaitReady(t.Context(), "ResNet50"); err != nil {
		t.Fatal(err)
	}
	away := func() string { return gauge(t, s.Web.Address, "symphony_control_store_away") }
	c, err := client.New(client.Options{URL: "http://" + s.Control.Address})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, err = c.State(t.Context()); err == nil || strings.Contains(err.Error(), "does not answer") {
			break // it is known
		}
	}
	if !errors.Is(err, &api.Error{Kind: api.KindAway}) || !strings.Contains(err.Error(), "etcd at http://"+etcd) || !strings.Contains(err.Error(), "start etcd, or correct control.endpoints") {
		t.Errorf("the API: %v", err)
	}
	if away() != "1" {
		t.Errorf("symphony_control_store_away is %q", away())
	}
	if n := strings.Count(log.String(), "waiting for it"); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, log)
	}

	comes, err := store.Open(t.Context(), store.Config{Ephemeral: true, Listen: etcd})
	if err != nil {
		t.Fatal(err)
	}
	defer comes.Close()
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		now, err := c.State(t.Context())
		if err == nil && now.Leads && !now.Store.Away {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it does not lead: %+v, %v\n%s", now, err, log)
		}
	}
	if away() != "0" || strings.Count(log.String(), "the control plane's etcd is there") != 1 {
		t.Errorf("away is %q:\n%s", away(), log)
	}
}

// A controller waits, too, and its end does not wait for etcd.
func TestControllerBeforeItsEtcd(t *testing.T) {
	p, log := elsewhere(t, nobody(t))
	k, err := p.Control(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + k.Address + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !strings.Contains(string(body), "does not answer") {
		t.Errorf("%s: %s", resp.Status, body)
	}
	if err := k.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Count(text, "waiting for it") != 1 || strings.Contains(text, `"error"`) {
		t.Errorf("it has logged:\n%s", text)
	}
}

// What ends in order warns of nothing: not of links that its own parts have closed.
func TestEndsWithoutWarnings(t *testing.T) {
	for name, set := range map[string]func(*config.Control){
		"without a control plane": func(*config.Control) {},
		"ephemeral":               func(c *config.Control) { c.Ephemeral = true },
		"with data":               func(c *config.Control) { c.Data = t.TempDir() },
	} {
		t.Run(name, func(t *testing.T) {
			p, log := elsewhere(t, "")
			p.cfg.Control.Endpoints = nil
			set(&p.cfg.Control)
			s, err := p.Serve(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			linked := func() bool { return s.Control == nil || strings.Contains(log.String(), "controller joined") }
			for end := time.Now().Add(60 * time.Second); !linked(); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("no controller:\n%s", log)
				}
			}
			before := len(log.String())
			if err := s.Drain(); err != nil {
				t.Error(err)
			}
			end := log.String()[before:]
			if strings.Contains(end, `"level":"warn"`) || strings.Contains(end, `"level":"error"`) {
				t.Errorf("at its end:\n%s", end)
			}
		})
	}
}
