package backend

import (
	"context"
	"errors"
	"time"

	"github.com/symphony-serving/symphony/backend/repository"
)

// copyTries is how often a model whose files change is read at the start.
const copyTries = 3

// takeCopies copies a pool's first models, so that they are served from their copies. A model that cannot be copied is
// refused.
func (b *Backend) takeCopies(ctx context.Context, p *pool, models []repository.Model) (own []repository.Model, err error) {
	p.copies = map[string]func(){}
	for _, m := range models {
		if m.Path == "" { // it is emulated
			own = append(own, m)
			continue
		}
		mine, end, err := b.takeCopy(ctx, &m)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			b.refuse(p, m, err)
		default:
			p.copies[mine.Files] = end
			own = append(own, mine)
		}
	}
	return own, nil
}

func (b *Backend) takeCopy(ctx context.Context, m *repository.Model) (mine repository.Model, end func(), err error) {
	for range copyTries {
		if mine, end, err = b.snapshots.Take(ctx, m); !errors.Is(err, repository.ErrChanges) {
			break
		}
		select {
		case <-time.After(settled):
		case <-ctx.Done():
		}
	}
	return mine, end, err
}

// joinedPause is between two looks whether the backend has joined.
const joinedPause = 5 * time.Millisecond

// comingRest is how long after joining models still count as coming: the scheduler may not have heard of them yet.
const comingRest = 2 * time.Second

// Joined calls done once a scheduler has admitted this backend and has heard of its models, or when it ends.
func (b *Backend) Joined(done func()) {
	b.helpers.Go(func() {
		pause := time.NewTicker(joinedPause)
		defer pause.Stop()
		for !b.Ready() {
			select {
			case <-pause.C:
			case <-b.stop:
				done()
				return
			}
		}
		select {
		case <-time.After(comingRest):
		case <-b.stop:
		}
		done()
	})
}
