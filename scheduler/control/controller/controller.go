package controller

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/store"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// Controller is a running controller.
type Controller struct {
	cfg     Config
	log     zerolog.Logger
	view    *view
	metrics *metrics
	ctx     context.Context
	end     context.CancelFunc
	running sync.WaitGroup
	closing sync.Once
	preview chan struct{} // holds a token while a plan is previewed: each takes a processor for Config.Effort

	leads  atomic.Pointer[leading]    // nil: another one does, or none
	advice atomic.Pointer[api.Advice] // of the loop; nil: there is none yet
}

// New begins to follow the store and to campaign.
func New(cfg Config) (*Controller, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	c := &Controller{cfg: cfg, log: cfg.Logger, preview: make(chan struct{}, 1)}
	c.ctx, c.end = context.WithCancel(context.Background())
	c.view = newView(c.ctx, cfg.Store)
	var err error
	if c.metrics, err = newMetrics(c, cfg.Metrics); err != nil {
		c.end()
		return nil, err
	}
	c.running.Go(c.view.run)
	c.running.Go(c.campaign)
	return c, nil
}

// Close ends it: it resigns, so that another one leads at once. What is served goes on.
func (c *Controller) Close() error {
	c.closing.Do(func() {
		c.end()
		c.running.Wait()
		c.metrics.unregister()
	})
	return nil
}

// campaignAgain is between two reigns: what ended one at once may end the next one, too.
const campaignAgain = time.Second

// campaign leads whenever it can.
func (c *Controller) campaign() {
	select {
	case <-c.view.synced:
	case <-c.ctx.Done():
		return
	}
	for c.ctx.Err() == nil {
		won, err := c.cfg.Store.Campaign(c.ctx, schema.Leader{Name: c.cfg.Name, Address: c.cfg.Address, Since: time.Now().UnixNano()})
		if err != nil {
			if c.ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
				c.log.Error().Err(err).Msg("the controller cannot campaign")
			}
			return
		}
		c.log.Info().Str("controller", c.cfg.Name).Msg("leads the control plane")
		why := c.lead(won)
		won.Resign()
		if c.ctx.Err() == nil {
			c.log.Warn().AnErr("cause", why).Msg("does not lead any more: what is served goes on, nothing new is ordered")
		}
		select {
		case <-time.After(campaignAgain):
		case <-c.ctx.Done():
		}
	}
}
