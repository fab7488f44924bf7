package ingress

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// announce sends the head of a request with a body of n bytes, and sent of them.
func announce(t *testing.T, address, path string, n, sent int) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, r := dial(t, address)
	if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, n, strings.Repeat(" ", sent)); err != nil {
		t.Fatal(err)
	}
	return c, r
}

// Clients that announce all the memory that there is for bodies, and send next to none of
// it, take nothing from others, and are told after a while what they did wrong.
func TestAnnouncedBodiesTakeNoMemory(t *testing.T) {
	s := start(t, Config{BodyTimeout: 3 * time.Second})
	var slow []*bufio.Reader
	for i := range 16 {
		_, r := announce(t, s.address, []string{"/v2/models/digits/infer", "/v1/classify/digits"}[i%2], 64<<20, 9000)
		slow = append(slow, r)
	}
	waitFor(t, "all of them", func() bool { return s.running.Load() == 16 && s.bodies.Load() > 0 })
	c, r := dial(t, s.address)
	for range 20 {
		if _, err := c.Write(target().Good()); err != nil {
			t.Fatal(err)
		}
		s.want(readReply(t, r), 200, "logits")
	}
	if held := s.bodies.Load(); held > 17*bodyFirst {
		t.Errorf("%d bytes are held for 16 times 9000 that have come", held)
	}
	for _, r := range slow {
		s.want(readReply(t, r), 408, "16384 bytes/s")
	}
}

// Memory for bodies that is used up by large ones leaves small ones their reserve.
func TestReserveForSmallBodies(t *testing.T) {
	const large = 3 << 20
	s := start(t, Config{BodyMax: large, BodiesMax: 2 * large, BodyRate: -1}) // reserve: 1.5 MiB
	_, first := announce(t, s.address, "/v2/models/digits/infer", large, large-1)
	waitFor(t, "the first large body", func() bool { return s.bodies.Load() == large })
	_, second := announce(t, s.address, "/v2/models/digits/infer", large, large-1)
	s.want(readReply(t, second), 429, "too many bytes of bodies at a time: at most 6291456, 4718592 of them for bodies above 1048576")
	c, r := dial(t, s.address)
	for range 20 {
		if _, err := c.Write(target().Good()); err != nil {
			t.Fatal(err)
		}
		s.want(readReply(t, r), 200, "logits")
	}
	_ = first
}

// Who asks for a model that there is not is told before the body has come.
func TestUnknownModelBeforeTheBody(t *testing.T) {
	s := start(t, Config{BodyTimeout: time.Hour})
	for _, path := range []string{"/v2/models/nobody/infer", "/v1/classify/nobody", "/v2/models/digits/versions/9/infer"} {
		_, r := announce(t, s.address, path, 64<<20, 9000)
		s.want(readReply(t, r), 404, "unknown model")
	}
	c, r := announce(t, s.address, "/v2/models/nobody/infer", 90_000, 90_000) // what comes anyway is taken in
	s.want(readReply(t, r), 404, "unknown model")
	if _, err := c.Write(target().Good()); err != nil {
		t.Fatal(err)
	}
	s.want(readReply(t, r), 200, "logits")
}

// A body that comes at the least rate may take several windows; one that does not is
// ended at the first.
func TestBodyRate(t *testing.T) {
	s := start(t, Config{BodyTimeout: 3 * time.Second, BodyRate: 8 << 10})
	request := string(target().Good())
	request = strings.Replace(request, "Content-Length: ", "Content-Length: 5", 1) // 50,000 bytes more
	request = request[:strings.Index(request, "\r\n\r\n")+4] + strings.Repeat(" ", 50_000) + request[strings.Index(request, "\r\n\r\n")+4:]
	if !strings.Contains(request, fmt.Sprintf("Content-Length: %d\r\n", len(request)-strings.Index(request, "\r\n\r\n")-4)) {
		t.Fatalf("the request announces another length: %.200s", request)
	}
	c, r := dial(t, s.address)
	const piece = 3000 // some 30 KB/s: two seconds, four windows
	for from := 0; from < len(request); from += piece {
		if _, err := c.Write([]byte(request[from:min(from+piece, len(request))])); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.want(readReply(t, r), 200, "logits")
	if _, err := c.Write([]byte(request[:40_000])); err != nil { // much, and then nothing
		t.Fatal(err)
	}
	s.want(readReply(t, r), 408, "8192 bytes/s")
	c, r = dial(t, s.address)
	fmt.Fprintf(c, "POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4000\r\n%s\r\n", strings.Repeat(" ", 0x4000))
	s.want(readReply(t, r), 408, "8192 bytes/s")
}
