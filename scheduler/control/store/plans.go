package store

import (
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// PutPlan writes an epoch's plan: its sub-clusters first, its head last, so that whoever finds
// the head finds all. An epoch is written once (ConflictError). Then plans beyond the newest
// schema.PlansKept are removed.
func (s *Store) PutPlan(ctx context.Context, head schema.Plan, subs []schema.SubCluster, guards ...Guard) error {
	head.SubClusters = len(subs)
	for i := range subs {
		if subs[i].Epoch != head.Epoch {
			return fmt.Errorf("plan %d has a sub-cluster of plan %d", head.Epoch, subs[i].Epoch)
		}
	}
	if err := head.Check(); err != nil {
		return err
	}
	if _, err := s.Plans.Get(ctx, head.ID()); err == nil {
		return &ConflictError{Kind: s.Plans.kind.Name, ID: head.ID()}
	}
	// Parts of a head that was never written: their writer died.
	stale := clientv3.OpDelete(s.parts.key(head.ID()+"/"), clientv3.WithPrefix())
	if _, err := s.commit(ctx, "clearing plan "+head.ID(), txn{guards: guards, ops: []clientv3.Op{stale}}); err != nil {
		return err
	}
	if err := s.parts.Write(ctx, subs, nil, guards...); err != nil {
		return err
	}
	if _, err := s.Plans.Create(ctx, head, guards...); err != nil {
		return err
	}
	return s.trimPlans(ctx, guards)
}

// trimPlans forgets the oldest: heads first, so that none is without its parts. The newest of each
// scheduler stays, however long ago it was made: it holds.
func (s *Store) trimPlans(ctx context.Context, guards []Guard) error {
	all, _, err := s.Plans.All(ctx)
	if err != nil {
		return err
	}
	newest, kept := map[string]bool{}, 0 // by scheduler
	for _, old := range slices.Backward(all) {
		kept++
		latest := !newest[old.Value.Scheduler] && len(newest) < schema.SchedulersMax
		if newest[old.Value.Scheduler] = true; kept <= schema.PlansKept || latest {
			continue
		}
		ops := []clientv3.Op{clientv3.OpDelete(s.Plans.key(old.ID)), clientv3.OpDelete(s.parts.key(old.ID+"/"), clientv3.WithPrefix())}
		if _, err := s.commit(ctx, "forgetting plan "+old.ID, txn{guards: guards, ops: ops}); err != nil {
			return err
		}
	}
	return nil
}

// Plan reads a plan whole; ErrNotFound if there is none of this epoch, or no more.
func (s *Store) Plan(ctx context.Context, epoch uint64) (Entry[schema.Plan], []schema.SubCluster, error) {
	head, err := s.Plans.Get(ctx, schema.EpochID(epoch))
	if err != nil {
		return head, nil, err
	}
	doing := fmt.Sprintf("reading plan %d", epoch)
	resp, err := s.get(ctx, doing, s.parts.key(head.ID+"/"), clientv3.WithPrefix())
	if err != nil {
		return head, nil, err
	}
	var subs []schema.SubCluster
	for _, kv := range resp.Kvs {
		e, err := s.parts.entry(kv)
		if err != nil {
			return head, nil, fmt.Errorf("%s: %w", doing, err)
		}
		subs = append(subs, e.Value)
	}
	if len(subs) != head.Value.SubClusters {
		return head, nil, fmt.Errorf("%s: %d of its %d sub-clusters are there: %w", doing, len(subs), head.Value.SubClusters, ErrNotFound)
	}
	return head, subs, nil
}

// LatestPlan reads the plan of the newest epoch, of those that are of one of these schedulers;
// none named: of any. ErrNotFound if there is none.
func (s *Store) LatestPlan(ctx context.Context, schedulers ...string) (Entry[schema.Plan], []schema.SubCluster, error) {
	all, _, err := s.Plans.All(ctx)
	if err != nil {
		return Entry[schema.Plan]{}, nil, err
	}
	for _, e := range slices.Backward(all) {
		if len(schedulers) == 0 || slices.Contains(schedulers, e.Value.Scheduler) {
			return s.Plan(ctx, e.Value.Epoch)
		}
	}
	return Entry[schema.Plan]{}, nil, fmt.Errorf("the latest plan: %w", ErrNotFound)
}
