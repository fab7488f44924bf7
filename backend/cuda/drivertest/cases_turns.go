package drivertest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/transport/mono"
)

// testEndCapture: where nothing is captured, the end of a capture is nothing, either.
func testEndCapture(t *testing.T, f Fixture) {
	const size = 4096
	r := open(t, f)
	s, in, out, dev := r.stream(), pattern(r.pinned(size), 3), r.pinned(size), r.alloc(size)
	must(t, s.CopyIn(dev, in))
	must(t, s.EndCapture())
	must(t, s.CopyOut(out, dev))
	must(t, s.Synchronize())
	same(t, "past the end of no capture", out, in)
}

// testTurns: copies of a stream get their turn beside those of another one, which copies as weights
// come: large pieces, each queued when the one before has ended. With two queued at any time the
// other stream never runs dry; whether it leaves the link to anybody is told, not demanded.
func testTurns(t *testing.T, f Fixture) {
	for queued, demanded := range map[int]bool{1: true, 2: false} {
		r := open(t, f)
		longest, got := r.turns(queued)
		t.Logf("%d pieces queued: %d of %d copies have had their turn, the longest wait %.2f ms", queued, got, turnCopies, longest.Millis())
		if demanded && got < turnCopies {
			t.Errorf("a copy beside another stream's has not ended after %v", turnMost)
		}
	}
}

const (
	turnCopies = 20
	turnMost   = time.Second
)

// turns copies little, again and again, beside a stream of large pieces.
func (r rig) turns(queued int) (longest mono.Dur, got int) {
	const piece, size = 16 << 20, 1 << 20
	large, dev := r.pinned(piece), r.alloc(piece)
	small, dev2 := r.pinned(size), r.alloc(size)
	s, e := r.stream(), r.event()
	other, ends := r.stream(), r.events(queued)
	stop, running, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	join := sync.OnceValue(func() error {
		close(stop)
		return <-ended
	})
	r.t.Cleanup(func() { must(r.t, join()) }) // before those of what it copies with: the last is the first
	go func() {
		ended <- cuda.On(r.c, func() error {
			for i := 0; ; i++ {
				if i == queued {
					close(running)
				}
				if err := ends[i%queued].Synchronize(); err != nil { // of the piece before in this place, if any
					return err
				}
				select {
				case <-stop:
					return other.Synchronize()
				default:
				}
				if err := errors.Join(other.CopyIn(dev, large), other.Record(ends[i%queued])); err != nil {
					return err
				}
			}
		})
	}()
	select {
	case <-running:
	case err := <-ended:
		ended <- err // for join
		r.t.Fatalf("the stream of large pieces: %v", err)
	}
	for ; got < turnCopies; got++ {
		begin := mono.Now()
		must(r.t, s.CopyIn(dev2, small))
		must(r.t, s.Record(e))
		done := false
		for !done && mono.Now().Sub(begin).Std() < turnMost {
			time.Sleep(20 * time.Microsecond)
			var err error
			done, err = e.Done()
			must(r.t, err)
		}
		longest = max(longest, mono.Now().Sub(begin))
		if !done {
			break
		}
	}
	must(r.t, join())
	must(r.t, s.Synchronize())
	return longest, got
}
