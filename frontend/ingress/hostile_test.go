package ingress

import (
	"bufio"
	"bytes"
	"context"
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
	return malformed.Target{Model: "digits", Input: "x", Output: "logits", Shape: []int64{784}, Batch: true,
		BytesModel: "echo-BYTES", BytesInput: "x", BytesShape: []int64{2, 3}, BodyMax: smallBody}
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
	if !strings.HasPrefix(got, "HTTP/1.1 503") || !strings.Contains(got, "Exceeds maximum queue size: too many connections") || !strings.Contains(got, "Retry-After: 1") {
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
	if got := exchangeRaw(t, s.address, closing); !strings.HasPrefix(got, "HTTP/1.1 503") || !strings.Contains(got, "too many requests") {
		t.Errorf("second request: %s", got)
	}
	close(hold)
	if got := <-first; !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("first request: %s", got)
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 10 s", what)
		}
	}
}

// Drain answers what is open, tells keep-alive connections to go, takes no new
// ones, and reports not ready meanwhile.
func TestDrain(t *testing.T) {
	s := start(t, Config{})
	hold := make(chan struct{})
	s.fake.mu.Lock()
	s.fake.hold = hold
	s.fake.mu.Unlock()
	silent, err := net.Dial("tcp", s.address) // must not keep the drain waiting
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	open, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	ready := []byte("GET /v2/health/ready HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := open.Write(append(target().Good(), ready...)); err != nil { // the second waits behind the first
		t.Fatal(err)
	}
	waitFor(t, "the inference", func() bool { return s.running.Load() == 1 && s.Server.open() == 2 })
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(context.Background()) }()
	waitFor(t, "the drain", s.draining.Load)
	waitFor(t, "a closed port", func() bool {
		c, err := net.Dial("tcp", s.address)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	select {
	case err := <-drained:
		t.Fatalf("drained (%v) while a request is open", err)
	default:
	}
	close(hold)
	open.SetReadDeadline(time.Now().Add(10 * time.Second))
	b, err := io.ReadAll(open)
	if err != nil || !bytes.HasPrefix(b, []byte("HTTP/1.1 200")) || !bytes.Contains(b, []byte("Connection: close")) {
		t.Errorf("open request: %v %s", err, b)
	}
	if err := <-drained; err != nil {
		t.Errorf("drain: %v", err)
	}
	if err := s.fake.last.Model; err != "digits" {
		t.Errorf("asked for %q", err)
	}
}

// A drain that may not wait cuts what is left, and says so.
func TestDrainCutsOff(t *testing.T) {
	s := start(t, Config{})
	hold := make(chan struct{})
	s.fake.mu.Lock()
	s.fake.hold = hold
	s.fake.mu.Unlock()
	open, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	open.Write(target().Good())
	waitFor(t, "the inference", func() bool { return s.running.Load() == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := s.Drain(ctx); err == nil || !strings.Contains(err.Error(), "1 connections were still busy") {
		t.Errorf("drain: %v", err)
	}
	if b, err := io.ReadAll(open); len(b) > 0 {
		t.Errorf("got %q, %v from a cut connection", b, err)
	}
	close(hold)
	waitFor(t, "the handler's end", func() bool { return s.Server.open() == 0 })
}

func TestMetricsPort(t *testing.T) {
	s := start(t, Config{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.ServeMetrics(l) }()
	k := &server{t: t, Server: s.Server, address: l.Addr().String()}
	k.want(k.do("GET", "/metrics", ""), 200, "symphony_http_requests_in_flight 0")
	k.want(k.do("GET", "/v2", ""), 404, "only /metrics")
	http.DefaultClient.CloseIdleConnections()
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	f := newFake()
	for text, cfg := range map[string]Config{
		"Client is missing":  {},
		"must be 503 or 429": {Client: f, FullStatus: 500},
		"BodiesMax":          {Client: f, BodyMax: 2 << 20, BodiesMax: 1 << 20},
		"HeaderMax":          {Client: f, HeaderMax: 10},
		"negative":           {Client: f, IdleTimeout: -1},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %q", cfg, err, text)
		}
	}
}
