package api

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// What follows a request with a Transfer-Encoding is not answered: net/http would take chunks beside a
// length for its body, and the rest for another request.
func TestNothingFollowsATransferEncoding(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(nil, Options{}).Server()
	go s.Serve(ln)
	t.Cleanup(func() { _ = s.Close() })
	next := "GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, c := range []struct {
		headers string
		answers int
	}{
		{"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 1},
		{"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 1},
		{"Content-Length: 1\r\n\r\nx", 2},
	} {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		last := strings.Replace(next, "Host", "Connection: close\r\nHost", 1)
		_, _ = io.WriteString(conn, "POST /nowhere HTTP/1.1\r\nHost: a\r\n"+c.headers+last)
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		all, err := io.ReadAll(conn)
		_ = conn.Close()
		if n := strings.Count(string(all), "HTTP/1.1 "); n != c.answers {
			t.Errorf("%q: %d answers, want %d (%v):\n%s", c.headers, n, c.answers, err, all)
		}
	}
}
