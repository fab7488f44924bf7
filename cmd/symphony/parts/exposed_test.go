package parts

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
)

// An address beyond loopback without a token is a line that says what to set.
func TestExposedAddressesAreTold(t *testing.T) {
	for address, want := range map[string]bool{"tcp:0.0.0.0:9000": true, "tcp::9000": true, "tcp:[::]:9000": true, "tcp:10.1.2.3:9000": true, "tcp:scheduler.example:9000": true,
		"tcp:127.0.0.1:9000": false, "tcp:127.9.9.9:0": false, "tcp:[::1]:9000": false, "tcp:[::ffff:127.0.0.1]:9000": false, "tcp:localhost:9000": false, "inproc:x": false, "tcp:nonsense": false} {
		for _, token := range []string{"", "secret"} {
			var out bytes.Buffer
			p := &Process{Log: zerolog.New(&out), cfg: config.Config{Token: token}}
			p.warnExposed("scheduler.listen", address)
			if told := strings.Contains(out.String(), "Set token"); told != (want && token == "") {
				t.Errorf("%s with token %q: %q", address, token, out.String())
			}
		}
	}
}

// lines is a log that may be written while it is read.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// The parts say it when they start, each of its own addresses.
func TestPartsTellExposedAddresses(t *testing.T) {
	var out lines
	cfg := config.Default()
	cfg.RDMA.Mode, cfg.TCP.KernelRTT = "never", "never"
	cfg.Scheduler.Listen, cfg.Frontend.Listen = []string{"inproc:s", "tcp:0.0.0.0:0"}, "tcp:0.0.0.0:0"
	cfg.Frontend.Scheduler = []string{"inproc:s"}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.Log = zerolog.New(&out)
	s, err := p.Scheduler()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := p.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, key := range []string{"scheduler.listen", "frontend.listen"} {
		if n := strings.Count(out.String(), `"`+key+`":"tcp:0.0.0.0:0"`); n != 1 {
			t.Errorf("%d lines of %s:\n%s", n, key, out.String())
		}
	}
}
