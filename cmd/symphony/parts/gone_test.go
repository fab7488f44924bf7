package parts

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"
)

// Of HTTP requests that wait those whose clients close leave: none of them runs, their slabs are free, and the
// counters add up. When all the others close as well, what runs already runs to its end, for nobody.
func TestHTTPClientsThatGo(t *testing.T) {
	const stay, leave = 200, 100
	var dispatched atomic.Int64
	p, s := overGRPC(t, &dispatched)
	served := func() int { return int(p.value(t, "symphony_http_requests_total", "code", "200")) } // a batch may be through meanwhile
	came := func() int { return int(p.value(t, "symphony_queue_requests", "", "")) + served() }
	drops := func() int { return int(p.value(t, "symphony_drops_total", "reason", "cancelled")) }
	counted := func() int { return int(p.value(t, "symphony_http_requests_total", "code", "499")) }
	slabs := func() int { return int(p.value(t, "symphony_arena_slabs", "", "")) }
	send := func(n int) (conns []net.Conn) {
		body := `{"inputs":[{"name":"input","datatype":"FP32","shape":[1,8],"data":[1,2,3,4,5,6,7,8]}]}`
		for range n {
			c, err := net.Dial("tcp", s.Web.Address)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fprintf(c, "POST /v2/models/slow/infer HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		return conns
	}
	// What waits runs by deadline, so what comes first runs first: four batches of seconds.
	first := send(stay)
	reached(t, "those that stay wait", func() bool { return came() == stay })
	last := send(leave)
	reached(t, "all wait", func() bool { return came() == stay+leave })
	for _, c := range last {
		c.Close()
	}
	reached(t, "who closed has left", func() bool { return drops() == leave && counted() == leave })
	if n := dispatched.Load(); n >= stay {
		t.Fatalf("%d requests were dispatched meanwhile: the test shows nothing", n)
	}
	if got := slabs(); got > stay {
		t.Errorf("%d slabs are held, want at most %d", got, stay)
	}
	for _, c := range first {
		c.Close()
	}
	reached(t, "nothing waits", func() bool {
		return int64(drops())+dispatched.Load() == stay+leave && counted()+served() == stay+leave && slabs() == 0
	})
	if n := p.value(t, "symphony_requests_total", "outcome", "cancelled"); int(n) != counted() {
		t.Errorf("the frontend counted %v cancelled, the ingress %d", n, counted())
	}
}
