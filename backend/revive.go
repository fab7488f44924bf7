package backend

import (
	"errors"
	"time"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/telemetry/health"
)

// Watcher tells how GPUs are, from outside CUDA.
type Watcher interface {
	// Watch has f called with each new verdict on a GPU, and at once when it is not healthy.
	// False: nobody knows the GPU.
	Watch(uuid string, f func(health.Verdict)) bool
	Close() error
}

// Sources of reasons for which a GPU is out of service.
const (
	sourceDevice    = "CUDA"      // its context is lost, or a batch hangs
	sourceTelemetry = "telemetry" // NVML's facts
)

// Pauses between attempts to bring a lost GPU back.
const (
	reviveFirst = time.Second
	reviveMost  = time.Minute
)

// keepGPUs takes GPUs out of service that are lost or cannot be trusted, and brings them back.
//
//	CUDA: lost   --> out of service, for CUDA's sake --> probe and reopen, more and more seldom --> in service
//	NVML: out    --> out of service, for telemetry's sake; if its context must go: lost, too
//	NVML: well   --> telemetry's reason is taken back
//
// While telemetry has a reason nothing is reopened: who resets a GPU needs it free.
func (b *Backend) keepGPUs() {
	var uuids []string
	for i, p := range b.pools {
		for k, g := range p.gpus {
			at := place{i, k}
			uuids = append(uuids, g.info.UUID)
			g.losing.Store(new(func(err error) {
				g.losses.Add(1)
				b.OutOfService(at.pool, at.device, sourceDevice, err.Error())
			}))
			g.lost.Store(new(func(error) { b.beginRevival(at, g) }))
		}
	}
	if len(uuids) == 0 || b.cfg.GPUs.Watch == nil {
		return
	}
	b.watcher = b.cfg.GPUs.Watch(uuids)
	if b.watcher == nil {
		return
	}
	for i, p := range b.pools {
		for k, g := range p.gpus {
			at := place{i, k}
			if !b.watcher.Watch(g.info.UUID, func(v health.Verdict) { b.judged(at, g, v) }) {
				about(b.log.Warn(), g.info).Msg("a GPU that NVML does not know is not watched")
			}
		}
	}
}

// judged acts on a verdict of telemetry's.
func (b *Backend) judged(at place, g *gpu, v health.Verdict) {
	g.unfit.Store(v.State == health.Out && v.Remedy >= health.NewContext)
	if v.State != health.Out {
		b.InService(at.pool, at.device, sourceTelemetry)
		return
	}
	b.OutOfService(at.pool, at.device, sourceTelemetry, v.Cause)
	if g.unfit.Load() {
		g.device.Fail(errors.New(v.Cause))
	}
}

func (b *Backend) beginRevival(at place, g *gpu) {
	b.service.mu.Lock()
	defer b.service.mu.Unlock()
	if !b.service.ended {
		b.revivals.Go(func() { b.revive(at, g) })
	}
}

// revive reopens a lost GPU as soon as that can be done.
func (b *Backend) revive(at place, g *gpu) {
	loss := g.losses.Load()
	for pause := reviveFirst; ; pause = min(2*pause, reviveMost) {
		select {
		case <-b.stop:
			return
		case <-time.After(pause):
		}
		if b.service.heldBeside(at, sourceDevice) {
			g.dropAttempt()
			pause = reviveFirst / 2 // it is not the GPU that makes us wait
			continue
		}
		err := b.reopen(g)
		if err == nil {
			b.revived(at, g, loss)
			return
		}
		select {
		case <-b.stop:
			return
		default:
		}
		about(b.log.Warn(), g.info).Err(err).Stringer("again_in", min(2*pause, reviveMost)).Msg("a lost GPU cannot be used yet")
	}
}

// revived puts a GPU that was reopened back into service, if that is still how it is: one that
// has been lost anew has another revival.
func (b *Backend) revived(at place, g *gpu, loss int64) {
	if g.unfit.Load() { // since we looked
		g.device.Fail(errors.New("telemetry wants it closed"))
	}
	b.service.mu.Lock()
	defer b.service.mu.Unlock()
	if g.losses.Load() == loss {
		b.inService(at, sourceDevice)
	}
}

// reopen gives the GPU a new context, and, where these are resident, its models.
func (b *Backend) reopen(g *gpu) error {
	if err := g.device.Released(); err != nil {
		return err // before another thread is risked
	}
	c, err := b.openAgain(g)
	if err != nil {
		return err
	}
	return g.device.Reopen(c)
}

// openMax is how long a revival waits for the driver.
const openMax = 10 * time.Second

var (
	errSilent = errors.New("the driver does not answer: restart the backend, or reset the GPU, if that stays")
	errEnds   = errors.New("the backend ends")
)

// openAgain tries a GPU and opens it, on a goroutine of its own, for that may hang: an attempt
// that does is waited for the next time, so that there is one thread that hangs at most.
func (b *Backend) openAgain(g *gpu) (cuda.Context, error) {
	attempt := g.opening
	if attempt == nil {
		attempt = make(chan opened, 1)
		g.opening = attempt
		go func() {
			var c cuda.Context
			err := cuda.Try(b.gpuHost.Driver, g.info.Index)
			if err == nil {
				c, err = b.gpuHost.Driver.Open(g.info.Index)
			}
			attempt <- opened{c, err}
		}()
	}
	timer := time.NewTimer(openMax)
	defer timer.Stop()
	select {
	case o := <-attempt:
		g.opening = nil
		return o.context, o.err
	case <-timer.C:
		return nil, errSilent
	case <-b.stop:
		go func() {
			if o := <-attempt; o.err == nil {
				_ = o.context.Close()
			}
		}()
		return nil, errEnds
	}
}

// dropAttempt closes what a late attempt has opened.
func (g *gpu) dropAttempt() {
	select {
	case o := <-g.opening:
		g.opening = nil
		if o.err == nil {
			_ = o.context.Close()
		}
	default:
	}
}

// endGPUs ends what keeps GPUs in service; what is reopened ends when the devices are closed.
func (b *Backend) endGPUs() {
	b.service.mu.Lock()
	b.service.ended = true
	b.service.mu.Unlock()
	close(b.stop)
	if b.watcher != nil {
		if err := b.watcher.Close(); err != nil {
			b.log.Warn().Err(err).Msg("telemetry of GPUs does not end")
		}
	}
}
