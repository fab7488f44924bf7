package frontend

import (
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	// imageDust is too little to be counted: that much for each worker is nothing.
	imageDust = 64 << 10
	// imageSmall is what an image may take and still use the share that is kept for such.
	imageSmall = 1 << 20
	// collectPause is how long a worker waits for what the collector gives back.
	collectPause = 20 * time.Millisecond
)

// imageMemory bounds the bytes that decoding takes, over all workers.
//
// A decoder's memory is the garbage collector's, and is still there when the image is
// done. So what an image took is given back only when the collector has found it: then
// the bound is one of the process, not of what happens to be decoded at the moment.
// Where that memory is wanted, the collector is run; nobody waits for its own pace.
type imageMemory struct {
	max int64

	mu         sync.Mutex
	live       int64         // of images that are being decoded
	dead       int64         // of those that were, and are not collected
	freed      chan struct{} // closed, and another, when something is given back
	collecting bool
}

func newImageMemory(n int64) *imageMemory {
	return &imageMemory{max: n, freed: make(chan struct{})}
}

// largest is what one image may take; the rest is only for small ones.
func (m *imageMemory) largest() int64 { return m.max - m.max/8 }

// take waits for n bytes, which are at most largest; false: not by until, or stop.
func (m *imageMemory) take(n int64, until mono.Time, stop <-chan struct{}) bool {
	if n <= imageDust {
		return true
	}
	limit := m.largest()
	if n <= imageSmall {
		limit = m.max
	}
	for {
		m.mu.Lock()
		if m.live+m.dead+n <= limit {
			m.live += n
			m.mu.Unlock()
			return true
		}
		freed, collect := m.freed, m.dead > 0 && !m.collecting
		m.collecting = m.collecting || collect
		m.mu.Unlock()
		if collect {
			if n <= imageSmall {
				runtime.GC()
			} else { // which would else lie idle, too small for the next
				debug.FreeOSMemory()
			}
			m.mu.Lock()
			m.collecting = false
			m.mu.Unlock()
		}
		left := until.Sub(mono.Now())
		if left <= 0 {
			return false
		}
		select {
		case <-freed:
		case <-time.After(min(left.Std(), collectPause)):
		case <-stop:
			return false
		}
	}
}

// done says that the image that took n is no longer used.
func (m *imageMemory) done(n int64) {
	if n <= imageDust {
		return
	}
	m.mu.Lock()
	m.live -= n
	m.dead += n
	m.mu.Unlock()
	// Made after the image and dropped with it: the collector does not find it sooner.
	runtime.AddCleanup(&struct{ _ [64]byte }{}, m.collected, n)
}

// collected is called when the collector has found an image.
func (m *imageMemory) collected(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead -= n
	close(m.freed)
	m.freed = make(chan struct{})
}
