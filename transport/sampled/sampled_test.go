package sampled

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// However many goroutines add however much, a span gets one line, and nothing is lost
// from the count.
func TestLinesAndCounts(t *testing.T) {
	var mu sync.Mutex
	lines, counted := 0, 0
	l := New(100*time.Millisecond, func(_ int, left int) {
		mu.Lock()
		defer mu.Unlock()
		lines++
		counted += 1 + left
	})
	begin := time.Now()
	var all sync.WaitGroup
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := range 20_000 {
				l.Add(i)
			}
		}()
	}
	all.Wait()
	l.Close()
	l.Add(1)
	most := 3 + int(time.Since(begin)/(100*time.Millisecond))
	if counted != 160_000 || lines < 2 || lines > most {
		t.Errorf("%d lines, at most %d, tell of %d", lines, most, counted)
	}
}

// What a span has kept is written when it is over, without another event.
func TestTheRestIsTold(t *testing.T) {
	told := make(chan int, 8)
	l := New(20*time.Millisecond, func(_ int, left int) { told <- left })
	defer l.Close()
	for range 5 {
		l.Add(0)
	}
	for i, want := range []int{0, 3} {
		select {
		case left := <-told:
			if left != want {
				t.Errorf("line %d leaves out %d, want %d", i, left, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("line %d did not come", i)
		}
	}
}

// A flood of refusals is two lines: the first, and how many more there were.
func TestRefusals(t *testing.T) {
	var out bytes.Buffer
	r := NewRefusals(zerolog.New(&out))
	for range 50_000 {
		r.Refused("192.0.2.7:4711", errors.New("not a Symphony frame"))
	}
	r.Close()
	if n := strings.Count(out.String(), "\n"); n > 3 || !strings.Contains(out.String(), "and_others") || !strings.Contains(out.String(), "192.0.2.7") {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
}
