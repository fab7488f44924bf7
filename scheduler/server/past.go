package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Past is what outlives a Server that ends because another one has overtaken it: the next one in its
// process counts on.
type Past struct {
	takeovers atomic.Uint64 // reigns that began here
	held      atomic.Uint64 // requests that were held at the door
	late      atomic.Uint64 // heartbeats that were due late
	unheard   atomic.Int64  // standby.Scheduler.Unheard, as it last led
	heard     atomic.Uint64 // standby.Scheduler.Heard, likewise

	once  sync.Once
	begun uint64
}

// wall is the time of day at mono instant 0, unix ns, as it was when it was asked for first: a clock that is
// set changes nothing for reigns.
func (p *Past) wall() uint64 {
	p.once.Do(func() { p.begun = uint64(time.Now().UnixNano()) - uint64(mono.Now()) })
	return p.begun
}
