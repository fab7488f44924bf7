package ingress

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// The table of package malformed at the doors beside the main one, which are served by the same code: a
// request with two lengths ends the connection there, too.
func TestFramingAtEachDoor(t *testing.T) {
	s := start(t, Config{MetricsApart: true, AdminApart: true})
	const two = "POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, serve := range map[string]func(net.Listener) error{"metrics": s.ServeMetrics, "admin": s.ServeAdmin} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go serve(l) // until the drain that start has arranged
		if got := exchangeRaw(t, l.Addr().String(), two); !strings.HasPrefix(got, "HTTP/1.1 400") || strings.Count(got, "HTTP/1.1 ") != 1 {
			t.Errorf("%s: %.300q", name, got)
		}
	}
}

// Requests that are right as they are are answered: chunks with an extension and a trailer once, as the
// connection ends then; a GET with a body, and HTTP/1.0 that asks for it, keep theirs.
func TestFramingThatIsRight(t *testing.T) {
	s := start(t, Config{})
	body := `{"inputs":[{"name":"x","shape":[2,3],"datatype":"UINT8","data":[1,2,3,4,5,6]}]}`
	const path = "/v2/models/echo-UINT8/infer"
	chunked := "50;a=b;c=\"d\"\r\n" + body + "\r\n0\r\nX-Sum: 7\r\n\r\n"
	if len(body) != 0x50 {
		body += strings.Repeat(" ", 0x50-len(body))
		chunked = "50;a=b\r\n" + body + "\r\n0\r\nX-Sum: 7\r\n\r\n"
	}
	for name, request := range map[string]string{
		"chunks":              "POST " + path + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked,
		"chunks, other case":  "POST " + path + " HTTP/1.1\r\nHost: x\r\ntransfer-encoding:  CHUNKED \r\n\r\n" + chunked,
		"a GET with a body":   "GET /v2/health/live HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd",
		"a length of 0050":    "POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0080\r\n\r\n" + body,
		"HTTP/1.0":            "POST " + path + " HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 80\r\n\r\n" + body,
		"a name like another": "POST " + path + " HTTP/1.1\r\nHost: x\r\nX-Transfer-Encoding: chunked\r\nTransfer-Encodings: x\r\nContent-Length: 80\r\n\r\n" + body,
		"connection: closed":  "POST " + path + " HTTP/1.1\r\nHost: x\r\nConnection: closed, keep-alive\r\nContent-Length: 80\r\n\r\n" + body,
	} {
		c, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(20 * time.Second))
		in := bufio.NewReader(c)
		chunks := strings.HasPrefix(name, "chunks")
		for range 2 { // the second shows that the first ended where it should
			io.WriteString(c, request)
			a, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
			text, _ := io.ReadAll(a.Body)
			if a.StatusCode != 200 || a.Close != chunks {
				t.Errorf("%s: %d, closes: %v, %s", name, a.StatusCode, a.Close, text)
			}
			if chunks {
				break
			}
		}
		c.Close()
	}
}

// Clients that ask for the connection's end get it, however they spell it.
func TestConnectionCloseInAnySpelling(t *testing.T) {
	s := start(t, Config{})
	for _, value := range []string{"close", "Close", "CLOSE", "close, TE", "keep-alive,close", " foo , Close "} {
		got := exchangeRaw(t, s.address, "GET /v2/health/live HTTP/1.1\r\nHost: x\r\nConnection: "+value+"\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 200") || !strings.Contains(got, "Connection: close") {
			t.Errorf("%q: %q", value, got)
		}
	}
}

// Looking at the headers of an ordinary request allocates nothing.
func TestFramingAllocatesNothing(t *testing.T) {
	var h fasthttp.RequestHeader
	const text = "POST /v2/models/m/infer HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nUser-Agent: python\r\nAccept-Encoding: gzip, deflate\r\nAccept: */*\r\nConnection: keep-alive\r\n" +
		"Content-Type: application/octet-stream\r\nInference-Header-Content-Length: 150\r\nContent-Length: 3286\r\n\r\n"
	if err := h.Read(bufio.NewReader(strings.NewReader(text))); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() { framingText(&h) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	if text, closes := framingText(&h); text != "" || closes {
		t.Errorf("an ordinary request: %q, %v", text, closes)
	}
}

func BenchmarkFraming(b *testing.B) {
	var h fasthttp.RequestHeader
	const text = "POST /v2/models/m/infer HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nUser-Agent: python\r\nAccept-Encoding: gzip, deflate\r\nAccept: */*\r\nConnection: keep-alive\r\n" +
		"Content-Type: application/octet-stream\r\nInference-Header-Content-Length: 150\r\nContent-Length: 3286\r\n\r\n"
	if err := h.Read(bufio.NewReader(strings.NewReader(text))); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		framingText(&h)
	}
}
