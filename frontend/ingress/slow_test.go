package ingress

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/wire"
)

// inferBytes is a whole binary request for a model of 784 floats, whose reply is binary.
func inferBytes(model string) []byte {
	head := `{"inputs":[{"name":"x","shape":[1,784],"datatype":"FP32","parameters":{"binary_data_size":3136}}],"parameters":{"binary_data_output":true}}`
	return fmt.Appendf(nil, "POST /v2/models/%s/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s: %d\r\n\r\n%s%s",
		model, len(head)+3136, headerLength, len(head), head, bytes.Repeat([]byte("abcd"), 784))
}

func dial(t *testing.T, address string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c, bufio.NewReader(c)
}

func readReply(t *testing.T, r *bufio.Reader) answer {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, b, resp.Close}
}

// Pipelined requests are answered in order, each with its own reply, whatever stands
// between them; then the connection goes on.
func TestPipelining(t *testing.T) {
	s := start(t, Config{})
	list := `{"inputs":[{"name":"x","shape":[1,784],"datatype":"FP32","data":[` + strings.Repeat("1,", 783) + `1]}]}`
	kinds := []struct {
		request string
		status  int
		text    string
	}{
		{string(inferBytes("wide")), 200, "abcdabcd"},
		{fmt.Sprintf("POST /v2/models/wide/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(list), list), 200, `"data":[1,1,1`},
		{strings.Replace(string(inferBytes("wide")), "[1,784]", "[1,785]", 1), 400, "inputs[0]"},
		{string(inferBytes("nobody")), 404, "unknown model"},
		{"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n", 200, "live"},
	}
	c, r := dial(t, s.address)
	for range 2 {
		var all strings.Builder
		for i := range 20 {
			all.WriteString(kinds[i%len(kinds)].request)
		}
		if _, err := io.WriteString(c, all.String()); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			k := kinds[i%len(kinds)]
			if a := readReply(t, r); a.status != k.status || !bytes.Contains(a.body, []byte(k.text)) {
				t.Errorf("reply %d: %d %.200q, want %d with %q", i, a.status, a.body, k.status, k.text)
			}
		}
	}
}

// Full is 429 with a reason and Retry-After: at once, also where the body does not
// come, and after a body that comes the connection goes on.
func TestFullAtOnce(t *testing.T) {
	s := start(t, Config{})
	s.fake.arenaFull.Store(true)
	c, r := dial(t, s.address)
	for range 2 {
		if _, err := c.Write(inferBytes("wide")); err != nil {
			t.Fatal(err)
		}
		a := readReply(t, r)
		if s.want(a, 429, "arena is full"); s.full(a, 250) == 0 || a.header.Get(reasonHeader) != wire.ReasonFull.String() {
			t.Errorf("headers %v", a.header)
		}
	}
	s.fake.arenaFull.Store(false)
	s.fake.failWith(reason(frontend.ErrOverloaded, wire.ReasonFull)) // the table, or the scheduler's ring
	if _, err := c.Write(inferBytes("wide")); err != nil {
		t.Fatal(err)
	}
	s.full(readReply(t, r), 250)
	s.fake.arenaFull.Store(true)
	for range 2 { // a larger body that is on its way is taken in: the connection goes on
		if _, err := c.Write(append(bigStart(), make([]byte, 1000)...)); err != nil {
			t.Fatal(err)
		}
		s.want(readReply(t, r), 429, "arena is full")
	}
	if _, err := c.Write(bigStart()); err != nil {
		t.Fatal(err)
	}
	s.full(readReply(t, r), 250)
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("after the answer to half a request: %v, want the end", err)
	}
}

// bigStart is the start of a request for "huge", of which the last bytes are missing.
func bigStart() []byte {
	head := `{"inputs":[{"name":"x","shape":[1,10000],"datatype":"FP32","parameters":{"binary_data_size":40000}}]}`
	return fmt.Appendf(nil, "POST /v2/models/huge/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s: %d\r\n\r\n%s%s",
		len(head)+40000, headerLength, len(head), head, strings.Repeat("a", 39000))
}

// Clients that send slowly, and ones that do not take their replies, slow down nobody
// else, and what they hold of the arena is bounded: beyond it they wait in a body.
func TestSlowClients(t *testing.T) {
	s := start(t, Config{DirectMax: 140_000, BodyTimeout: 2 * time.Second})
	for range 5 {
		c, _ := dial(t, s.address)
		if _, err := c.Write(bigStart()); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "two in slabs, three in bodies", func() bool { return s.fake.reserved.Load() == 2 && s.bodies.Load() > 3*40_000 })
	trickle, _ := dial(t, s.address)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, b := range inferBytes("wide") { // never whole: it is closed before
			if _, err := trickle.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	deaf, _ := dial(t, s.address)
	go func() { // replies fill the connection, and then the server waits in Write
		for {
			if _, err := deaf.Write(inferBytes("wide")); err != nil {
				return
			}
		}
	}()
	c, r := dial(t, s.address)
	for i := range 200 {
		if _, err := c.Write(inferBytes("wide")); err != nil {
			t.Fatal(err)
		}
		if a := readReply(t, r); a.status != 200 {
			t.Fatalf("request %d beside slow clients: %d %s", i, a.status, a.body)
		}
	}
	trickle.Close()
	deaf.Close()
	<-ended
	waitFor(t, "the slow are given up", func() bool { return s.slow.Load() == 0 && s.fake.reserved.Load() == 0 })
}

// TestIdleConnections bounds what a connection costs that has had a reply and waits:
// thousands of them must be cheap. BenchmarkIdleConnections tells how much it is.
func TestIdleConnections(t *testing.T) {
	if each := idleBytes(t, 200); each > 64<<10 {
		t.Errorf("%d bytes for an idle connection", each)
	}
}
