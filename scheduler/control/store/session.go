package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// session keeps this process's registrations in etcd by one lease: however many backends
// there are, one renewal serves all. When the lease is lost (etcd was away for longer than
// its time, or has forgotten it), all are written again with a new one.
type session struct {
	s    *Store
	kick chan struct{} // has a token when there is something to write

	mu     sync.Mutex        // Guards what follows.
	wanted map[string]string // key -> value
	dirty  map[string]bool   // keys that etcd does not have as wanted says
	ended  bool
	lease  *lease // nil: none now
}

// sessionRetry is between two tries that failed.
const sessionRetry = 500 * time.Millisecond

func newSession(s *Store) *session {
	return &session{s: s, kick: make(chan struct{}, 1), wanted: map[string]string{}, dirty: map[string]bool{}}
}

// Registration is a backend that is there.
type Registration struct {
	s   *Store
	key string
}

// Register makes a backend known for as long as this process lives, and again whenever etcd
// has forgotten it. It does not wait for etcd. A backend registered twice is the last one.
func (s *Store) Register(b schema.Backend) (*Registration, error) {
	r := &Registration{s: s, key: s.Backends.key(b.ID())}
	return r, r.Update(b)
}

// Update replaces what is known of the backend; its name must stay.
func (r *Registration) Update(b schema.Backend) error {
	pair, err := schema.PairOf(schema.Backends(), b)
	if err != nil {
		return err
	}
	if r.s.Backends.key(b.ID()) != r.key {
		return fmt.Errorf("backend %s: a registration keeps its name: register it anew", b.Name)
	}
	return r.s.session.want(r.key, string(pair.Value))
}

// Close takes the registration back; if etcd is away that happens when it is back.
func (r *Registration) Close() { r.s.session.unwant(r.key) }

func (n *session) want(key, value string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		return ErrClosed
	}
	if _, known := n.wanted[key]; !known && len(n.wanted) >= schema.Backends().CountMax {
		return &FullError{schema.Backends().Name, schema.Backends().CountMax}
	}
	if n.wanted[key] == value {
		return nil
	}
	n.wanted[key], n.dirty[key] = value, true
	n.wake()
	return nil
}

func (n *session) unwant(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.wanted[key]; known {
		delete(n.wanted, key)
		n.dirty[key] = true
		n.wake()
	}
}

func (n *session) wake() {
	select {
	case n.kick <- struct{}{}:
	default:
	}
}

// run holds a lease while there is something to hold it for.
func (n *session) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-n.kick:
		}
		for n.any() && ctx.Err() == nil {
			err := n.hold(ctx)
			if ctx.Err() != nil {
				return
			}
			n.s.cfg.Logger.Debug().Err(err).Msg("backends are registered again")
			if !n.s.pause(ctx, sessionRetry) {
				return
			}
		}
	}
}

func (n *session) any() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.wanted) > 0
}

// hold takes a lease, writes all, and goes on with what changes until the lease is lost.
func (n *session) hold(ctx context.Context) error {
	if st, _ := n.s.State(); st.Away {
		return errors.New("etcd is away")
	}
	l, err := n.s.grant(ctx, n.s.cfg.LeaseTTL)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.lease = l
	clear(n.dirty)
	for key := range n.wanted {
		n.dirty[key] = true
	}
	n.mu.Unlock()
	held, cancel := context.WithCancelCause(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		cancel(l.keep(held))
	}()
	defer func() { cancel(nil); <-kept }()
	_, age, changed := n.s.health.now()
	for {
		if err := n.write(held, l); err != nil {
			if held.Err() != nil || errors.Is(err, rpctypes.ErrLeaseNotFound) {
				return errors.Join(err, context.Cause(held))
			}
			if !n.s.pause(held, sessionRetry) {
				return context.Cause(held)
			}
			continue
		}
		select {
		case <-n.kick:
		case <-held.Done():
			return context.Cause(held)
		case <-changed:
			var now int
			if _, now, changed = n.s.health.now(); now != age {
				return errors.New("etcd is another one")
			}
		}
	}
}

// write brings to etcd what it does not have. What is taken back is deleted only if it is
// ours: another process may have registered the same name meanwhile.
func (n *session) write(ctx context.Context, l *lease) error {
	n.mu.Lock()
	var puts, gone []string
	var ops []clientv3.Op
	for key := range n.dirty {
		if value, ok := n.wanted[key]; ok {
			puts = append(puts, key)
			ops = append(ops, clientv3.OpPut(key, value, clientv3.WithLease(l.id)))
		} else {
			gone = append(gone, key)
		}
	}
	n.mu.Unlock()
	if err := n.s.commitAll(ctx, fmt.Sprintf("registering %d backends", len(puts)), ops, nil); err != nil {
		return err
	}
	for _, key := range gone {
		ours := clientv3.Compare(clientv3.LeaseValue(key), "=", l.id)
		if _, err := n.s.rawTxn(ctx, "taking a registration back", []clientv3.Cmp{ours}, []clientv3.Op{clientv3.OpDelete(key)}); err != nil {
			return err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	again := false
	for _, op := range ops {
		key := string(op.KeyBytes())
		if n.wanted[key] == string(op.ValueBytes()) {
			delete(n.dirty, key)
		} else {
			again = true
		}
	}
	for _, key := range gone {
		if _, back := n.wanted[key]; !back {
			delete(n.dirty, key)
		} else {
			again = true
		}
	}
	if again {
		n.wake()
	}
	return nil
}

// end takes all registrations back.
func (n *session) end() {
	n.mu.Lock()
	l := n.lease
	n.ended = true
	clear(n.wanted)
	n.mu.Unlock()
	if l != nil && n.s.client != nil {
		_ = l.revoke()
	}
}
