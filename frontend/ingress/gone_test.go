package ingress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/wire"
)

// held are requests that wait in the fake until the returned channel is closed.
func (s *server) held() chan struct{} {
	hold := make(chan struct{})
	s.fake.mu.Lock()
	s.fake.hold = hold
	s.fake.mu.Unlock()
	return hold
}

// waits waits for so many requests that wait, and were cancelled.
func (s *server) waits(waiting, cancelled int) {
	s.t.Helper()
	waitFor(s.t, fmt.Sprintf("%d that wait, %d cancelled", waiting, cancelled), func() bool {
		w, c := s.fake.state()
		return w == waiting && c == cancelled
	})
}

// sends opens a connection and sends on it.
func (s *server) sends(text string) net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		s.t.Fatal(err)
	}
	return c
}

func post(path, body string, headers ...string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n%s\r\n%s", path, len(body), strings.Join(headers, ""), body)
}

const (
	flatJSON = `{"inputs":[{"name":"x","shape":[4],"datatype":"FP32","data":[1,2,3,4]}]}`
	twoItems = `{"inputs":[{"name":"x","shape":[2,2,3],"datatype":"UINT8","data":[1,1,1,1,1,1,1,1,1,1,1,1]}]}`
)

// asks are the ways to ask for inferences, and of how many items they are.
func asks() map[string]int {
	header := `{"inputs":[{"name":"x","shape":[4],"datatype":"FP32","parameters":{"binary_data_size":16}}]}`
	return map[string]int{
		post("/v2/models/flat/infer", flatJSON):       1,
		post("/v2/models/echo-UINT8/infer", twoItems): 2,
		post("/v1/classify/digits", "\x89PNG"):        1,
		post("/v2/models/flat/infer", header+strings.Repeat("\x00", 16), fmt.Sprintf("%s: %d\r\n", headerLength, len(header))): 1,
	}
}

// A client that closes takes its requests along, whichever way they came: no slab is held, nothing runs, and it
// counts as such. Those that stay have their answers.
func TestWhoGoesTakesItsRequestAlong(t *testing.T) {
	s := start(t, Config{})
	hold := s.held()
	stays := s.sends(post("/v2/models/flat/infer", flatJSON))
	s.waits(1, 0)
	cancelled := 0
	for text, items := range asks() {
		c := s.sends(text)
		s.waits(1+items, cancelled)
		c.Close()
		cancelled += items
		s.waits(1, cancelled)
	}
	waitFor(t, "the end of all but one", func() bool { return s.running.Load() == 1 && s.Server.open() == 1 })
	if n := s.fake.served.Load(); n != 0 {
		t.Errorf("%d ran for nobody", n)
	}
	close(hold)
	s.want(readReply(t, bufio.NewReader(stays)), 200, `"model_name":"flat"`)
	m := s.do("GET", "/metrics", "")
	s.want(m, 200, `symphony_http_requests_total{code="499",route="infer"} 3`)
	s.want(m, 200, `symphony_http_requests_total{code="499",route="classify"} 1`)
	s.want(m, 200, `symphony_http_requests_total{code="200",route="infer"} 1`)
}

// A reset is an end; what came ahead, and waits to be read, is none: it is the next request.
func TestBytesAreNoEnd(t *testing.T) {
	s := start(t, Config{})
	hold := s.held()
	c := s.sends(post("/v2/models/flat/infer", flatJSON))
	s.waits(1, 0)
	if err := c.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	c.Close()
	s.waits(0, 1)
	c = s.sends(post("/v2/models/flat/infer", flatJSON))
	s.waits(1, 1)
	if _, err := io.WriteString(c, post("/v2/models/flat/infer", flatJSON, "Connection: close\r\n")); err != nil { // while the first waits
		t.Fatal(err)
	}
	other := s.sends(post("/v2/models/flat/infer", flatJSON))
	s.waits(2, 1)
	other.Close() // behind it, a look at all has come and gone
	s.waits(1, 2)
	close(hold)
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if b, err := io.ReadAll(c); err != nil || strings.Count(string(b), "HTTP/1.1 200") != 2 {
		t.Errorf("%v after %q, want two answers", err, b)
	}
}

// However long it takes to cancel, the next look is not far.
func TestLongLookDelaysNoOther(t *testing.T) {
	s := start(t, Config{})
	s.held()
	first, second := s.sends(post("/v2/models/flat/infer", flatJSON)), s.sends(post("/v2/models/flat/infer", flatJSON))
	s.waits(2, 0)
	stuck := make(chan struct{})
	s.fake.mu.Lock()
	s.fake.stuck = stuck
	s.fake.mu.Unlock()
	first.Close()
	<-stuck                 // the lookout cancels
	time.Sleep(time.Second) // 200 times that is more than waits has patience for
	s.fake.mu.Lock()
	s.fake.stuck = nil
	s.fake.mu.Unlock()
	close(stuck)
	second.Close()
	s.waits(0, 2)
}

// The item that fails ends those beside it.
func TestFailedItemCancelsTheOthers(t *testing.T) {
	s := start(t, Config{})
	hold := s.held()
	s.fake.failWith(reason(frontend.ErrDropped, wire.ReasonShed))
	c := s.sends(post("/v2/models/echo-UINT8/infer", twoItems))
	s.waits(2, 0)
	hold <- struct{}{}
	s.want(readReply(t, bufio.NewReader(c)), 429, "Exceeds maximum queue size")
	s.waits(0, 1)
}

// A look that took long has a longer rest behind it, up to a bound; and a drain ends any rest.
func TestRestOfTheLookout(t *testing.T) {
	for look, want := range map[time.Duration]time.Duration{0: lookEvery, time.Millisecond: 200 * time.Millisecond, time.Second: 250 * time.Millisecond} {
		if got := restAfter(look); got != want {
			t.Errorf("%v after a look of %v, want %v", got, look, want)
		}
	}
	s := start(t, Config{})
	rested := make(chan struct{})
	go func() {
		s.rest(time.NewTimer(0), time.Hour)
		close(rested)
	}()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	<-rested
}

// The lookout ends when nothing is asked for, and comes back.
func TestLookoutEnds(t *testing.T) {
	s := start(t, Config{})
	for range 2 {
		s.want(s.do("POST", "/v2/models/flat/infer", flatJSON), 200, "")
		waitFor(t, "the lookout's end", func() bool { return !s.looking.Load() })
	}
}
