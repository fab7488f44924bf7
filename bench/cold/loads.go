package cold

import (
	"sync"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Loads is what devices' loaders did.
type Loads struct {
	Loads, Unloads, Failed int64
	Busy                   mono.Dur // that loads took together
}

func (l Loads) more(o Loads) Loads {
	return Loads{l.Loads + o.Loads, l.Unloads + o.Unloads, l.Failed + o.Failed, l.Busy + o.Busy}
}

func (l Loads) less(o Loads) Loads {
	return Loads{l.Loads - o.Loads, l.Unloads - o.Unloads, l.Failed - o.Failed, l.Busy - o.Busy}
}

// Mean is a load's length, ms.
func (l Loads) Mean() float64 { return l.Busy.Millis() / float64(max(1, l.Loads)) }

// LoadsWatcher is told of the reports of loads and unloads. Whoever starts the system hands it in.
type LoadsWatcher struct {
	mu    sync.Mutex // Guards total.
	total Loads
}

// Loaded takes a report.
func (w *LoadsWatcher) Loaded(d *wire.Loaded) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case d.Op == wire.OpUnload:
		w.total.Unloads++
	case d.Reason != wire.ReasonNone:
		w.total.Failed++
	default:
		w.total.Loads++
		w.total.Busy += d.End.Sub(d.Start)
	}
}

func (w *LoadsWatcher) told() Loads {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total
}

// memoryEvery is how often the process's memory is looked at: a load takes several times as long.
const memoryEvery = 10 * time.Millisecond

// memory looks at how much of the process is in memory.
type memory struct {
	stop chan struct{}
	most chan int64
}

func watchMemory(resident func() int64) *memory {
	m := &memory{make(chan struct{}), make(chan int64)}
	go func() {
		tick := time.NewTicker(memoryEvery)
		defer tick.Stop()
		most := resident()
		for {
			select {
			case <-m.stop:
				m.most <- most
				return
			case <-tick.C:
				most = max(most, resident())
			}
		}
	}()
	return m
}

// end is the most that it was.
func (m *memory) end() int64 {
	close(m.stop)
	return <-m.most
}
