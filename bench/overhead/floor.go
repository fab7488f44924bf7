package overhead

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Floor is what the same bytes cost over bare connections, one exchange at a time.
type Floor struct {
	Hops     Spread // the five hops of a request: frontend, scheduler, backend, frontend, backend, frontend
	Batch    Spread // the same with the bytes of a whole batch, which the last four hops carry together
	PingPong Spread // one round trip of the record and the answer
	HTTP     Spread // one fasthttp request with the input, answered with as much
}

// floors gathers spans of the floors. Each load has its own, measured right before and
// after it beside the idle system: a noisy machine's floor of one moment is not that of
// another.
type floors struct {
	payload, batch             int
	hops, whole, pingpong, web []mono.Dur
}

func newFloors(payload, batch int) *floors { return &floors{payload: payload, batch: batch} }

// measure takes a quarter of d for each.
func (f *floors) measure(ctx context.Context, d mono.Dur) error {
	record := (&wire.Submit{}).Append(nil)
	bare := func(to *[]mono.Dur, sizes []int) error {
		spans, err := bareHops(ctx, sizes, d/4)
		*to = append(*to, spans...)
		return err
	}
	web, err := bareHTTP(ctx, f.payload, d/4)
	f.web = append(f.web, web...)
	return errors.Join(err,
		bare(&f.hops, hopSizes(f.payload, 1)),
		bare(&f.whole, hopSizes(f.payload, f.batch)),
		bare(&f.pingpong, []int{len(record) + f.payload, len(record) + f.payload}))
}

// add takes another's spans in.
func (f *floors) add(o *floors) {
	f.hops, f.whole = append(f.hops, o.hops...), append(f.whole, o.whole...)
	f.pingpong, f.web = append(f.pingpong, o.pingpong...), append(f.web, o.web...)
}

func (f *floors) spreads() Floor {
	sorted := func(spans []mono.Dur) Spread {
		slices.Sort(spans)
		return spread(spans)
	}
	return Floor{Hops: sorted(f.hops), Batch: sorted(f.whole), PingPong: sorted(f.pingpong), HTTP: sorted(f.web)}
}

// hopSizes are the bytes of each hop for a batch of n, one write each: a record comes
// alone, the rest together.
func hopSizes(payload, n int) []int {
	submit, order := (&wire.Submit{}).Append(nil), (&wire.Batch{Items: make([]wire.BatchItem, n)}).Append(nil)
	read, reply := (&wire.Read{}).Append(nil), (&wire.ReadReply{}).Append(nil, payload)
	output := (&wire.Output{}).Append(nil, payload)
	return []int{len(submit), len(order), n * len(read), n * (len(reply) + payload), n * (len(output) + payload)}
}

// bareHops sends each exchange once around: hop i is sizes[i] bytes over a connection
// of its own to a goroutine that blocks in a read. The last hop ends where the first
// began.
func bareHops(ctx context.Context, sizes []int, d mono.Dur) ([]mono.Dur, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer ln.Close()
	n := len(sizes)
	from, to := make([]net.Conn, n), make([]net.Conn, n) // the ends of hop i
	defer func() {
		for _, c := range append(from, to...) {
			if c != nil {
				c.Close()
			}
		}
	}()
	for i := range sizes {
		if from[i], err = net.Dial("tcp", ln.Addr().String()); err != nil {
			return nil, err
		}
		if to[i], err = ln.Accept(); err != nil {
			return nil, err
		}
	}
	for i := range n - 1 {
		go pass(to[i], make([]byte, sizes[i]), from[i+1], make([]byte, sizes[i+1]))
	}
	out, in := make([]byte, sizes[0]), make([]byte, sizes[n-1])
	return repeat(ctx, d, func() error {
		if _, err := from[0].Write(out); err != nil {
			return err
		}
		_, err := io.ReadFull(to[n-1], in)
		return err
	})
}

// pass answers each message of one hop with one of the next, until a connection ends.
func pass(from io.Reader, in []byte, to io.Writer, out []byte) {
	for {
		if _, err := io.ReadFull(from, in); err != nil {
			return
		}
		if _, err := to.Write(out); err != nil {
			return
		}
	}
}

func bareHTTP(ctx context.Context, payload int, d mono.Dur) ([]mono.Dur, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &fasthttp.Server{Handler: func(c *fasthttp.RequestCtx) { c.Response.SetBody(c.Request.Body()) }, NoDefaultServerHeader: true}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	client := &fasthttp.HostClient{Addr: ln.Addr().String()}
	q, r := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(q)
	defer fasthttp.ReleaseResponse(r)
	q.SetRequestURI("http://" + ln.Addr().String() + "/")
	q.Header.SetMethod(fasthttp.MethodPost)
	q.SetBody(make([]byte, payload))
	s, err := repeat(ctx, d, func() error { return client.Do(q, r) })
	client.CloseIdleConnections()
	err = errors.Join(err, server.Shutdown())
	ln.Close() // a server that had not begun to serve yet was not shut down
	<-ended
	return s, err
}

// repeat measures an exchange, one after the other, a tenth of d to warm up.
func repeat(ctx context.Context, d mono.Dur, exchange func() error) ([]mono.Dur, error) {
	start := mono.Now()
	counted, end := start.Add(d/10), start.Add(d)
	var spans []mono.Dur
	for at := start; at < end && ctx.Err() == nil; {
		if err := exchange(); err != nil {
			return nil, err
		}
		now := mono.Now()
		if at >= counted {
			spans = append(spans, now.Sub(at))
		}
		time.Sleep(pause.Std())
		at = mono.Now()
	}
	return spans, nil
}

// pause parts exchanges: at low load no thread is still awake from the one before.
const pause = 200 * mono.Microsecond
