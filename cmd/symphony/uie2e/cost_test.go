package uie2e

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/watch"
)

const (
	// turn is how long the scheduler's processor time is measured with a viewer, or without one: short, so that
	// what else the machine does is much the same in two of them, one behind the other. Three looks (ui.every) are in each, whenever
	// it begins.
	turn = 2400 * time.Millisecond
	// settle is between turns: until what the last one began is over (scheduler.watch_after).
	settle = 600 * time.Millisecond
	// toldMost is how many bytes a viewer may be told for each request: a batch of one and its report are some 60,
	// packed, and candidates and surroundings, which come whatever the rate is, make it 85 at this one.
	toldMost = 150.0
	// toldLeast is the share of the requests that it must be told of: those of a turn's ends may be in another.
	toldLeast = 0.7
)

// What a viewer costs the scheduler: its processor time with and without one, at the same load, by turns in
// changing order. The median of the differences is told, with how far it can be trusted; whether it is little is for
// people to say, who know what else the machine did. Tested is what the cost is made of: how much is told, and that it tells of
// the requests.
func TestViewerCost(t *testing.T) {
	chromium(t) // it belongs to make test-ui
	pairs := max(4, int(5*spanOf(t)/(2*(turn+settle))))
	c := startCluster(t, gpus, "--set", "scheduler.watch_after=100ms")
	c.load(t, rate, "--arrivals", "constant")
	time.Sleep(5 * time.Second)
	var with, without, cost, ratio []float64
	var told seen
	for i := range pairs {
		var a, b, beside, besideSeen float64
		for k := range 2 {
			if (i+k)%2 == 0 {
				a, beside = c.used(t, turn)
				without = append(without, a)
			} else {
				v := c.view(t)
				time.Sleep(settle)
				b, besideSeen = c.used(t, turn)
				with = append(with, b)
				told.add(t, v.leave(t))
			}
			time.Sleep(settle)
		}
		cost = append(cost, b-a)
		ratio = append(ratio, 100*(b/besideSeen/(a/beside)-1))
	}
	m, trust := middle(cost)
	t.Logf("the scheduler's processor time at %d requests/s and %d GPUs, %d turns each of %v: %.2f %% of a processor without a viewer (%s), %.2f %% with one (%s)", rate, gpus, pairs, turn,
		100*median(without), quartiles(without), 100*median(with), quartiles(with))
	t.Logf("a viewer costs %+.3f +- %.3f points, %+.1f +- %.1f %% of what the scheduler takes", 100*m, 100*trust, 100*m/median(without), 100*trust/median(without))
	m, trust = middle(ratio)
	t.Logf("that is %+.2f +- %.2f %% beside what the backend takes in the same turns, which is the same with a viewer but for what else the machine does", m, trust)
	offered := float64(pairs) * (turn + settle).Seconds() * rate
	each, share := float64(told.bytes)/offered, float64(told.requests)/offered
	t.Logf("it is told %.0f bytes for each request, and of %.2f of them, in %d batches with %d reports", each, share, told.batches, told.reports)
	if share < toldLeast || told.reports < told.batches/2 || each > toldMost {
		t.Errorf("want %v of the requests, reports, and at most %.0f bytes for each", toldLeast, toldMost)
	}
}

// seen is what a viewer was told.
type seen struct{ bytes, batches, reports, requests int }

// add reads a stream, once it is over: reading takes a processor. What was kept when the viewer came is in it, which
// is no more than a tenth of a second (scheduler.watch_after).
func (s *seen) add(t *testing.T, stream []byte) {
	t.Helper()
	s.bytes += len(stream)
	var r watch.Reader
	for line := range bytes.Lines(stream) {
		text, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok || !bytes.HasSuffix(line, []byte("\n")) { // the viewer left within it
			continue
		}
		if err := r.Line(text, s.take); err != nil {
			t.Error(err)
		}
	}
}

func (s *seen) take(e *watch.Event) {
	switch e.Kind {
	case watch.Batch:
		s.batches++
		s.requests += len(e.Requests)
	case watch.Done:
		s.reports++
	case watch.Drop:
		s.requests++
	}
}

// viewer follows the stream and keeps it.
type viewer struct {
	body   io.Closer
	stream chan []byte
}

func (c *cluster) view(t *testing.T) *viewer {
	t.Helper()
	resp, err := http.Get(c.admin + "/ui/events")
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d", resp.StatusCode)
	}
	v := &viewer{resp.Body, make(chan []byte, 1)}
	go func() {
		all := make([]byte, 0, 4<<20)
		for {
			n, err := resp.Body.Read(all[len(all):cap(all)])
			if all = all[:len(all)+n]; err != nil {
				v.stream <- all
				return
			}
			all = slices.Grow(all, 1<<16)
		}
	}()
	return v
}

// leave ends it.
func (v *viewer) leave(t *testing.T) []byte {
	t.Helper()
	if err := v.body.Close(); err != nil {
		t.Error(err)
	}
	return <-v.stream
}

// middle is the median, with twice its standard error.
func middle(all []float64) (m, trust float64) {
	m = median(all)
	var off []float64
	for _, v := range all {
		off = append(off, math.Abs(v-m))
	}
	return m, 2 * 1.2533 * 1.4826 * median(off) / math.Sqrt(float64(len(all)))
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// quartiles are those between which half of them are, in per cent.
func quartiles(all []float64) string {
	sorted := slices.Sorted(slices.Values(all))
	return fmt.Sprintf("half of the turns within %.2f to %.2f", 100*sorted[len(sorted)/4], 100*sorted[(3*len(sorted)-1)/4])
}
