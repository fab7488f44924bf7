package ingress

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/frontend/ingress/malformed"
)

const smallBody = 1 << 20

// limits are small, so that slow senders are found out soon.
func limits() Config {
	return Config{BodyMax: smallBody, BodiesMax: 64 << 20, HeaderTimeout: 500 * time.Millisecond, BodyTimeout: 700 * time.Millisecond}
}

func target() malformed.Target {
	return malformed.Target{Model: "digits", Input: "x", Output: "logits", Shape: []int64{784}, Batch: true, BodyMax: smallBody}
}

// TestMalformed fires the table, several at a time, while good traffic runs on
// other connections and must lose nothing.
func TestMalformed(t *testing.T) {
	s := start(t, limits())
	stop := goodTraffic(t, s.address, 4)
	cases := malformed.Cases(target())
	if len(cases) < 45 {
		t.Errorf("%d cases, want at least 45", len(cases))
	}
	var wait sync.WaitGroup
	gate := make(chan struct{}, 8)
	for _, c := range cases {
		wait.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			if err := malformed.Fire(s.address, c, 20*time.Second); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		})
	}
	wait.Wait()
	served := stop()
	t.Logf("%d cases; %d good requests beside them", len(cases), served)
	if served == 0 {
		t.Error("no good traffic")
	}
	if held := s.bodies.Load(); held != 0 {
		t.Errorf("%d bytes of bodies are still held", held)
	}
	if n := s.running.Load(); n != 0 {
		t.Errorf("%d inferences still run", n)
	}
}

// goodTraffic sends good requests on n keep-alive connections until stop,
// which returns how many were answered. Anything but 200 fails the test.
func goodTraffic(t *testing.T, address string, n int) (stop func() int64) {
	good := target().Good()
	var served atomic.Int64
	var ended atomic.Bool
	var wait sync.WaitGroup
	for range n {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		wait.Go(func() {
			defer conn.Close()
			r := bufio.NewReader(conn)
			for !ended.Load() {
				if _, err := conn.Write(good); err != nil {
					t.Errorf("good traffic: %v", err)
					return
				}
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Errorf("good traffic: %v", err)
					return
				}
				b, err := io.ReadAll(resp.Body)
				if resp.StatusCode != 200 || err != nil {
					t.Errorf("good traffic: %d %s %v", resp.StatusCode, b, err)
				}
				served.Add(1)
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	return func() int64 { ended.Store(true); wait.Wait(); return served.Load() }
}

func TestTooManyConnections(t *testing.T) {
	cfg := limits()
	cfg.Connections = 2
	s := start(t, cfg)
	var open []net.Conn
	for range 2 {
		c, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
	}
	waitFor(t, "two connections", func() bool { return s.Server.open() == 2 })
	got := exchangeRaw(t, s.address, string(target().Good()))
	if !strings.HasPrefix(got, "HTTP/1.1 429") || !strings.Contains(got, "Exceeds maximum queue size: too many connections") || !strings.Contains(got, "Retry-After: ") {
		t.Errorf("third connection: %s", got)
	}
	open[0].Close()
	waitFor(t, "room", func() bool { return s.Server.open() == 1 })
	got = exchangeRaw(t, s.address, strings.Replace(string(target().Good()), "Host", "Connection: close\r\nHost", 1))
	if !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("after one has left: %s", got)
	}
}

func TestTooManyRequests(t *testing.T) {
	cfg := limits()
	cfg.Requests = 1
	s := start(t, cfg)
	hold := make(chan struct{})
	s.fake.mu.Lock()
	s.fake.hold = hold
	s.fake.mu.Unlock()
	first := make(chan string, 1)
	closing := strings.Replace(string(target().Good()), "Host", "Connection: close\r\nHost", 1)
	go func() { first <- exchangeRaw(t, s.address, closing) }()
	waitFor(t, "the first inference", func() bool { return s.running.Load() == 1 })
	if got := exchangeRaw(t, s.address, closing); !strings.HasPrefix(got, "HTTP/1.1 429") || !strings.Contains(got, "too many requests") {
		t.Errorf("second request: %s", got)
	}
	close(hold)
	if got := <-first; !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("first request: %s", got)
	}
}

// waitFor waits as long as a busy machine may need: only what never comes takes its time.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	f := newFake()
	for text, cfg := range map[string]Config{
		"Client is missing":  {},
		"must be 429 or 503": {Client: f, FullStatus: 500},
		"BodiesMax":          {Client: f, BodyMax: 2 << 20, BodiesMax: 1 << 20},
		"HeaderMax":          {Client: f, HeaderMax: 10},
		"negative":           {Client: f, IdleTimeout: -1},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %q", cfg, err, text)
		}
	}
}
