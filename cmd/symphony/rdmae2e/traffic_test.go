package rdmae2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The model of the fault tests: its input is what a READ brings. Its largest batch is
// 1, so that nothing is deferred for long though the SLO is.
const (
	modelName = "m"
	inputSize = 600_000
	modelSLO  = 1500 * time.Millisecond // below hangMax: a deadline is a defined answer, too
	patience  = 10 * time.Second        // of the HTTP client: an answer that takes longer is a hang
	callers   = 6
)

const emulatedPool = "{device_type: emulated, kind: emulated, devices: 4}"

// emulated is a repository with the model.
func emulated(t *testing.T) string {
	t.Helper()
	path := write(t, "models/"+modelName+"/config.yaml", "platform: emulated\ndevice_type: emulated\nslo: %v\nmax_batch: 1\nprofile: {alpha_ms: 1, beta_ms: 5}\n"+
		"inputs: [{name: input, type: FP32, shape: [%d]}]\noutputs: [{name: output, type: FP32, shape: [8]}]\n", modelSLO, inputSize/4)
	return path[:len(path)-len("/"+modelName+"/config.yaml")]
}

// answer is how one request ended: a status, or an error of the connection.
type answer struct {
	caller     int
	begin, end time.Time
	status     int
	body       string // of a refusal
	err        error
}

// traffic is closed-loop load over HTTP.
type traffic struct {
	url  string
	body []byte
	quit chan struct{}
	all  sync.WaitGroup
	good atomic.Int64

	mu      sync.Mutex // Guards what follows.
	answers []answer
}

// traffic begins; stop ends it.
func (c *cluster) traffic() *traffic {
	f := &traffic{url: fmt.Sprintf("http://127.0.0.1:%d/v2/models/%s/infer", c.port.http, modelName), body: make([]byte, inputSize), quit: make(chan struct{})}
	for i := range callers {
		f.all.Go(func() { f.work(i) })
	}
	return f
}

func (f *traffic) work(i int) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for {
		select {
		case <-f.quit:
			return
		default:
		}
		a := f.ask(client)
		a.caller = i
		f.mu.Lock()
		f.answers = append(f.answers, a)
		f.mu.Unlock()
		if a.status == 200 {
			f.good.Add(1)
		} else {
			time.Sleep(20 * time.Millisecond) // a refusal costs nothing; the next is not to be the only thing done
		}
	}
}

func (f *traffic) ask(client *http.Client) (a answer) {
	a.begin = time.Now()
	defer func() { a.end = time.Now() }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", f.url, bytes.NewReader(f.body))
	if err != nil {
		a.err = err
		return a
	}
	req.Header.Set("Inference-Header-Content-Length", "0") // the body is the input
	resp, err := client.Do(req)
	if err != nil {
		a.err = err
		return a
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if a.err = err; err == nil {
		a.status = resp.StatusCode
	}
	if a.status != 200 {
		a.body = string(body)
	}
	return a
}

// flow waits until n more requests have succeeded.
func (f *traffic) flow(t *testing.T, when string, n int64) {
	t.Helper()
	from := f.good.Load()
	eventually(t, "requests succeed "+when, func() error {
		if got := f.good.Load() - from; got < n {
			return fmt.Errorf("%d of %d; the last answers: %v", got, n, f.last(3))
		}
		return nil
	})
}

// answered waits until no request is open that was at a fault.
func (f *traffic) answered(t *testing.T, fault time.Time) {
	t.Helper()
	eventually(t, "the open requests are answered", func() error {
		done := map[int]bool{}
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, a := range f.answers {
			done[a.caller] = done[a.caller] || a.end.After(fault)
		}
		if len(done) < callers || !allTrue(done) {
			return fmt.Errorf("of callers %v", done)
		}
		return nil
	})
}

func allTrue(m map[int]bool) bool {
	for _, v := range m {
		if !v {
			return false
		}
	}
	return true
}

func (f *traffic) last(n int) []answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.answers[max(0, len(f.answers)-n):]
}

// stop ends the load when all are answered.
func (f *traffic) stop() []answer {
	close(f.quit)
	f.all.Wait()
	return f.answers
}

// account says how the requests ended that were open at a fault, or came in the
// span after it.
type account struct {
	open    int           // at the fault
	slowest time.Duration // from the fault to the last answer of these
	later   time.Duration // longest answer of those that came after
	ends    map[string]int
}

func (f *traffic) account(fault time.Time, span time.Duration) account {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := account{ends: map[string]int{}}
	for _, x := range f.answers {
		switch {
		case x.end.Before(fault) || x.begin.After(fault.Add(span)):
			continue
		case x.begin.Before(fault):
			a.open++
			a.slowest = max(a.slowest, x.end.Sub(fault))
		default:
			a.later = max(a.later, x.end.Sub(x.begin))
		}
		if x.err != nil {
			a.ends["connection lost"]++
		} else {
			a.ends[fmt.Sprint(x.status)]++
		}
	}
	return a
}

func (a account) String() string {
	return fmt.Sprintf("%d requests open, the last answered after %v; later ones took %v at most; answers %v", a.open, a.slowest.Round(time.Millisecond), a.later.Round(time.Millisecond), a.ends)
}
