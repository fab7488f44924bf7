package httpbench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

const reply = "HTTP/1.1 200 OK\r\nServer: symphony\r\nContent-Type: application/octet-stream\r\nContent-Length: 5\r\nInference-Header-Content-Length: 2\r\n\r\n{}abc"

func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { _ = Echo{Replies: map[string][]byte{"/v2/models/m/infer": []byte(reply)}}.Serve(l) }()
	return l.Addr().String()
}

// The echo says what it was told, header by header, but for the date.
func TestEcho(t *testing.T) {
	got, err := Once(echo(t), Request("m", 784, true))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"Server: symphony", "Content-Type: application/octet-stream", "Inference-Header-Content-Length: 2", "\r\n\r\n{}abc"} {
		if !strings.Contains(string(got), part) {
			t.Errorf("%q lacks %q", got, part)
		}
	}
}

// One, and eight requests in flight on each connection; other paths are refused and
// not counted as served.
func TestGenerate(t *testing.T) {
	address := echo(t)
	for _, depth := range []int{1, 8} {
		l, err := Generate(t.Context(), Job{Address: address, Request: Request("m", 784, false), Connections: 3, Depth: depth, Span: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if l.OK == 0 || len(l.Refused) > 0 || l.P50 <= 0 || l.P99 < l.P50 || l.Span < 0.1 {
			t.Errorf("depth %d: %+v", depth, l)
		}
	}
	l, err := Generate(t.Context(), Job{Address: address, Request: Request("other", 784, false), Connections: 3, Depth: 1, Span: 50 * time.Millisecond})
	if err != nil || l.OK != 0 || l.Refused[404] == 0 {
		t.Errorf("other path: %+v, %v", l, err)
	}
}

// What answers in no HTTP, or breaks off, ends the job.
func TestGenerateFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello\r\n\r\n")
			c.Close()
		}
	}()
	_, err = Generate(t.Context(), Job{Address: l.Addr().String(), Request: []byte("x"), Connections: 2, Depth: 1, Span: time.Hour})
	if err == nil {
		t.Error("no error")
	}
}

// Replies are found wherever the reads cut them.
func TestReplies(t *testing.T) {
	for _, r := range []io.Reader{strings.NewReader(strings.Repeat(reply, 3)), iotest.OneByteReader(strings.NewReader(strings.Repeat(reply, 3)))} {
		cut := replies{b: make([]byte, 200)}
		for i := range 3 {
			if status, err := cut.next(r); status != 200 || err != nil {
				t.Fatalf("reply %d: %d, %v", i, status, err)
			}
		}
		if _, err := cut.next(r); err != io.EOF {
			t.Errorf("after the last: %v", err)
		}
	}
	long := replies{b: make([]byte, 64)}
	if _, err := long.next(strings.NewReader(reply)); !errors.Is(err, errNoHTTP) {
		t.Errorf("long headers: %v", err)
	}
	for _, bad := range []string{"", "HTTP/1.1 abc\r\nContent-Length: 1\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n", "HTTP/1.1 200 OK\r\nDate: x\r\n"} {
		if _, _, err := head([]byte(bad)); !errors.Is(err, errNoHTTP) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// The ways take turns; the ratio is that of the medians; refused replies do not count.
func TestMeasure(t *testing.T) {
	rates := map[string]int64{"e": 100, "i": 60}
	cfg := Config{Connections: 1, Depth: 1, Rounds: 3, Span: time.Second, Generate: func(_ context.Context, j Job) (*Load, error) {
		rates[j.Address] += 10
		return &Load{Span: 1, OK: rates[j.Address], Refused: map[int]int64{503: 1}}, nil
	}}
	none := func() (mono.Dur, error) { return 0, nil }
	ways := []Way{{Name: "binary", Server: EchoServer, Address: "e", CPU: none}, {Name: "binary", Server: InferServer, Address: "i", CPU: none}}
	r, err := Measure(t.Context(), cfg, ways)
	if err != nil {
		t.Fatal(err)
	}
	if q, ok := r.Ratio("binary"); !ok || math.Abs(q.Median-90.0/130) > 1e-9 || math.Abs(q.Min-80.0/120) > 1e-9 {
		t.Errorf("ratio %+v", q)
	}
	var out bytes.Buffer
	r.Print(&out)
	for _, want := range []string{"130 (120..140)", "0.69 (0.67..0.71)", "3 of 503"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Measure(ctx, cfg, ways); !errors.Is(err, ErrNothing) {
		t.Errorf("interrupted: %v", err)
	}
}
