package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// lease is a promise of etcd's: keys that belong to it stay while it is renewed.
//
// Rejected: the client's KeepAlive, which wakes up twice a second for each lease and counts
// from when an answer came, not from when the renewal was sent; and its KeepAliveOnce, which
// tries again without a pause while there is no connection.
type lease struct {
	s    *Store
	id   clientv3.LeaseID
	ttl  time.Duration
	till time.Time // until when it surely lives, as this process knows
}

const (
	renewals   = 3                      // in a lease's time
	renewAgain = 250 * time.Millisecond // after one that failed
	marginOf   = 10                     // a lease's time over this is the margin for clocks that run apart
	revokeMax  = time.Second            // for the last word
)

var errLeaseLost = errors.New("the lease ended")

// grant asks for a lease.
func (s *Store) grant(ctx context.Context, ttl time.Duration) (*lease, error) {
	sent := time.Now()
	call, cancel := s.limit(ctx)
	defer cancel()
	resp, err := s.client.Grant(call, int64((ttl+time.Second-1)/time.Second))
	if err != nil {
		return nil, s.wrong(call, "asking for a lease", true, err)
	}
	l := &lease{s: s, id: resp.ID}
	l.granted(sent, resp.TTL)
	return l, nil
}

func (l *lease) granted(sent time.Time, seconds int64) {
	l.ttl = time.Duration(seconds) * time.Second
	l.till = sent.Add(l.ttl - l.ttl/marginOf)
}

// keep renews the lease until it is lost, and says why, or until ctx ends.
func (l *lease) keep(ctx context.Context) error {
	next := time.NewTimer(l.ttl / renewals)
	defer next.Stop()
	end := time.NewTimer(time.Until(l.till))
	defer end.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end.C:
			return fmt.Errorf("%w: etcd did not answer for %v", errLeaseLost, l.ttl)
		case <-next.C:
		}
		try, cancel := context.WithDeadline(ctx, l.till)
		err := l.renew(try)
		cancel()
		switch {
		case errors.Is(err, errLeaseLost):
			return err
		case err != nil:
			next.Reset(renewAgain)
		default:
			next.Reset(l.ttl / renewals)
			end.Reset(time.Until(l.till))
		}
	}
}

// renew sends one renewal on a stream of its own.
func (l *lease) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), l.s.cfg.Timeout)
	defer cancel()
	stream, err := pb.NewLeaseClient(l.s.client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return err
	}
	sent := time.Now()
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(l.id)}); err != nil {
		return err
	}
	resp, err := stream.Recv()
	if err != nil {
		return err
	}
	if resp.TTL <= 0 {
		return fmt.Errorf("%w: it ran out while etcd was away, or somebody revoked it", errLeaseLost)
	}
	l.granted(sent, resp.TTL)
	return stream.CloseSend()
}

// revoke ends the lease and removes its keys now, if etcd answers; otherwise its time does.
func (l *lease) revoke() error {
	ctx, cancel := context.WithTimeout(context.Background(), revokeMax)
	defer cancel()
	if st, _ := l.s.State(); st.Away {
		return errors.New("ending a lease: etcd is away")
	}
	_, err := l.s.client.Revoke(ctx, l.id)
	return err
}
