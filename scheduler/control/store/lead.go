package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// Lead is that this process leads: at most one does at a time.
type Lead struct {
	s     *Store
	lease *lease
	guard Guard
	ctx   context.Context
	end   context.CancelCauseFunc
	done  chan struct{} // closed when nothing of it runs
}

// leadRetry is between two tries that failed.
const leadRetry = 500 * time.Millisecond

func (s *Store) leaderKey() string { return s.key(schema.LeaderKey) }

// Campaign waits until this process leads, however long that takes and however often etcd
// goes away meanwhile, or until ctx ends. ctx bounds the waiting only: a Lead lasts until it
// is lost or resigned.
func (s *Store) Campaign(ctx context.Context, me schema.Leader) (*Lead, error) {
	if err := me.Check(); err != nil {
		return nil, err
	}
	for {
		lead, err := s.campaign(ctx, me)
		switch {
		case lead != nil:
			return lead, nil
		case s.ctx.Err() != nil:
			return nil, ErrClosed
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		if err != nil { // nil: nobody leads now
			s.cfg.Logger.Debug().Err(err).Msg("campaigning again")
			s.pause(ctx, leadRetry)
		}
	}
}

// campaign tries once: it waits until nobody leads, and then is the first, or not.
func (s *Store) campaign(ctx context.Context, me schema.Leader) (*Lead, error) {
	resp, err := s.get(ctx, "looking who leads", s.leaderKey())
	if err != nil {
		return nil, err
	}
	if len(resp.Kvs) > 0 && resp.Kvs[0].Lease != 0 && resp.Kvs[0].Lease == s.led.Load() {
		former := lease{s: s, id: clientv3.LeaseID(resp.Kvs[0].Lease)}
		return nil, former.revoke() // this process's own: etcd was away when it ended, and counts its time anew
	}
	if len(resp.Kvs) > 0 {
		return nil, s.awaitVacancy(ctx, resp.Header.Revision+1)
	}
	l, err := s.grant(ctx, s.cfg.LeaseTTL)
	if err != nil {
		return nil, err
	}
	me.Since = nowUnix()
	text, err := jsonOf(me)
	if err != nil {
		return nil, err
	}
	vacant := clientv3.Compare(clientv3.CreateRevision(s.leaderKey()), "=", 0)
	created, err := s.commit(ctx, "taking the lead", txn{cmps: []clientv3.Cmp{vacant},
		ops:     []clientv3.Op{clientv3.OpPut(s.leaderKey(), text, clientv3.WithLease(l.id))},
		look:    []clientv3.Op{clientv3.OpGet(s.leaderKey(), clientv3.WithKeysOnly())},
		differs: func(*keyValue) error { return errors.New("another one was faster") }})
	if err != nil {
		_ = l.revoke() // if it was taken after all, and the answer lost, that ends it
		return nil, err
	}
	lead := &Lead{s: s, lease: l, guard: Guard{s.leaderKey(), created}, done: make(chan struct{})}
	lead.ctx, lead.end = context.WithCancelCause(s.ctx)
	if !s.start(lead.run) {
		lead.end(ErrClosed)
		return nil, ErrClosed
	}
	return lead, nil
}

// awaitVacancy waits until the leader's key goes, or the watch breaks.
func (s *Store) awaitVacancy(ctx context.Context, revision int64) error {
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	_, age, changed := s.health.now()
	answers := s.client.Watch(clientv3.WithRequireLeader(watch), s.leaderKey(), clientv3.WithRev(revision), clientv3.WithFilterPut())
	for {
		select {
		case resp, ok := <-answers:
			if !ok {
				return errors.New("the watch ended")
			}
			if err := resp.Err(); err != nil {
				return err
			}
			if len(resp.Events) > 0 {
				return nil
			}
		case <-changed:
			var now int
			if _, now, changed = s.health.now(); now != age {
				return nil // another etcd: look again
			}
		case <-s.ctx.Done():
			return ErrClosed
		}
	}
}

// run renews the lease, and watches that nobody takes the key away.
func (l *Lead) run() {
	defer close(l.done)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		if err := l.lease.keep(l.ctx); l.ctx.Err() == nil {
			l.end(fmt.Errorf("%w: %w", ErrNotLeading, err))
		}
	}()
	for from := l.guard.created + 1; l.ctx.Err() == nil; sleep(l.ctx, leadRetry) {
		_ = l.s.awaitVacancy(l.ctx, from) // a broken watch may have missed it
		if l.ctx.Err() == nil {
			from = l.look(from)
		}
	}
	<-kept
	l.s.led.Store(int64(l.lease.id))
	_ = l.lease.revoke() // the next one need not wait for its end
}

// look ends the Lead if its key is not there any more. It returns the revision to watch from,
// which is from where etcd does not answer: one of long ago may be compacted.
func (l *Lead) look(from int64) int64 {
	resp, err := l.s.get(l.ctx, "looking who leads", l.guard.key, clientv3.WithKeysOnly())
	switch {
	case err != nil:
		return from
	case len(resp.Kvs) == 0 || resp.Kvs[0].CreateRevision != l.guard.created:
		l.end(fmt.Errorf("%w: its key was deleted", ErrNotLeading))
	}
	return resp.Header.Revision + 1
}

// Context ends when this process does not lead any more; its cause says why.
func (l *Lead) Context() context.Context { return l.ctx }

// Guard makes writes fail when this process does not lead any more.
func (l *Lead) Guard() Guard { return l.guard }

// Resign ends it; another process may lead at once.
func (l *Lead) Resign() {
	l.end(fmt.Errorf("%w: it resigned", ErrNotLeading))
	<-l.done
}

// Leader is who leads now; ErrNotFound: nobody.
func (s *Store) Leader(ctx context.Context) (schema.Leader, error) {
	resp, err := s.get(ctx, "looking who leads", s.leaderKey())
	if err != nil {
		return schema.Leader{}, err
	}
	if len(resp.Kvs) == 0 {
		return schema.Leader{}, fmt.Errorf("the leader: %w", ErrNotFound)
	}
	var who schema.Leader
	if err := json.Unmarshal(resp.Kvs[0].Value, &who); err != nil {
		return schema.Leader{}, fmt.Errorf("%s: %w", s.leaderKey(), err)
	}
	return who, who.Check()
}
