package fakecuda

import "github.com/symphony-serving/symphony/backend/cuda"

// hanging is what the kernel that is to hang does.
type hanging uint8

const (
	hangNot hanging = iota
	hangNext
	hangs
)

// change makes a change and wakes who waits.
func (g *GPU) change(do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	do()
	g.cond.Broadcast()
}

// SetMemory sets the device's memory. Less than is allocated: nothing is free.
func (g *GPU) SetMemory(bytes int64) { g.change(func() { g.info.Memory = bytes }) }

// FailAllocs makes the next n allocations, of a Runtime's models, too, end in ErrMemory.
func (g *GPU) FailAllocs(n int) { g.change(func() { g.failAllocs = n }) }

// Lose makes the device lost to who has it open: their calls return ErrLost, waiting ones
// at once. Once all have closed it, it can be opened again.
func (g *GPU) Lose() { g.lose("told so by the test") }

func (g *GPU) lose(why string) {
	g.change(func() {
		if g.primary != nil {
			g.primary.lose(g.errLost(why))
		}
	})
}

// Vanish is Lose, and the device cannot be opened until Return.
func (g *GPU) Vanish() {
	g.change(func() { g.gone = true })
	g.lose("it has vanished")
}

// Return brings it back. Contexts that were open stay lost.
func (g *GPU) Return() { g.change(func() { g.gone = false }) }

// FailKernel makes the next kernel that begins fail: a sticky error, all calls are ErrLost
// until all have closed the device.
func (g *GPU) FailKernel() { g.change(func() { g.failKernel = true }) }

// Hang makes the next kernel that begins hang, until Release or until the device is lost.
// What needs no kernel goes on.
func (g *GPU) Hang() { g.change(func() { g.hang = hangNext }) }

// Release lets it go on, and orders no other.
func (g *GPU) Release() { g.change(func() { g.hang = hangNot }) }

// Hanging reports whether a kernel hangs now.
func (g *GPU) Hanging() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hang == hangs
}

// FailHost makes the next n HostAlloc and HostRegister, of all GPUs, end in ErrMemory.
func (d *Driver) FailHost(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failHost = n
}

// FailLoads makes the next loads end in these errors, one each; nil: that one goes well.
func (r *Runtime) FailLoads(errs ...error) { r.order(&r.loads, errs) }

// FailRuns makes the next Program.Run return these errors, one each, without queueing
// anything: as ONNX Runtime does when it has no memory for what it computes.
func (r *Runtime) FailRuns(errs ...error) { r.order(&r.runs, errs) }

func (r *Runtime) order(list *[]error, errs []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append([]error(nil), errs...)
}

// next takes an ordered error.
func (r *Runtime) next(list *[]error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(*list) == 0 {
		return nil
	}
	err := (*list)[0]
	*list = (*list)[1:]
	return err
}

var _ cuda.Runtime = (*Runtime)(nil)
