package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

type keyValue = mvccpb.KeyValue

// Table is all documents of a kind. ids are what the documents' ID says: schema.ID of their
// names.
type Table[T schema.Document] struct {
	s    *Store
	kind schema.Kind
}

// Entry is a document as it was read.
type Entry[T any] struct {
	ID       string
	Value    T
	Revision int64 // of its last change: what Update compares
}

const (
	pageMax   = 500 // documents of a page
	retries   = 8   // of Change, when others change the same document
	freshness = 3   // times that All begins again because its revision was compacted
)

func (t *Table[T]) folder() string       { return t.s.key(t.kind.Name + "/") }
func (t *Table[T]) key(id string) string { return t.folder() + id }

func (t *Table[T]) doing(what, id string) string { return what + " " + t.kind.Name + " " + id }

// entry decodes what etcd returned.
func (t *Table[T]) entry(kv *keyValue) (Entry[T], error) {
	id := strings.TrimPrefix(string(kv.Key), t.folder())
	v, err := schema.Decode[T](t.kind, id, kv.Value)
	return Entry[T]{ID: id, Value: v, Revision: kv.ModRevision}, err
}

// Get reads one document; ErrNotFound if there is none.
func (t *Table[T]) Get(ctx context.Context, id string) (Entry[T], error) {
	doing := t.doing("reading", id)
	resp, err := t.s.get(ctx, doing, t.key(id))
	if err != nil {
		return Entry[T]{}, err
	}
	if len(resp.Kvs) == 0 {
		return Entry[T]{}, fmt.Errorf("%s: %w", doing, ErrNotFound)
	}
	return t.entry(resp.Kvs[0])
}

// Count is how many documents there are.
func (t *Table[T]) Count(ctx context.Context) (int, error) {
	resp, err := t.s.get(ctx, "counting "+t.kind.Name, t.folder(), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return int(resp.Count), nil
}

// List is a page: up to limit (at most 500) documents whose ids come after one, in the order of ids. more
// says that there are others behind it. Documents that cannot be read (written by hand, say)
// are left out and logged.
func (t *Table[T]) List(ctx context.Context, after string, limit int) (page []Entry[T], more bool, err error) {
	page, _, more, _, err = t.page(ctx, after, limit, 0)
	return page, more, err
}

// page reads at a revision; 0: the newest. last is the id of the last key, readable or not.
func (t *Table[T]) page(ctx context.Context, after string, limit int, at int64) (page []Entry[T], last string, more bool, revision int64, err error) {
	from := t.folder()
	if after != "" {
		from = t.key(after) + "\x00"
	}
	opts := []clientv3.OpOption{clientv3.WithRange(clientv3.GetPrefixRangeEnd(t.folder())), clientv3.WithLimit(int64(min(max(limit, 1), pageMax))), clientv3.WithRev(at)}
	resp, err := t.s.get(ctx, "listing "+t.kind.Name, from, opts...)
	if err != nil {
		return nil, "", false, 0, err
	}
	for _, kv := range resp.Kvs {
		e, err := t.entry(kv)
		last = e.ID
		if err != nil {
			t.unreadable(err)
			continue
		}
		page = append(page, e)
	}
	return page, last, resp.More, resp.Header.Revision, nil
}

func (t *Table[T]) unreadable(err error) {
	t.s.cfg.Logger.Error().Err(err).Msg("a document of the control plane cannot be read and is left out: correct or delete it with etcdctl")
}

// All is the whole table as it was at one revision.
func (t *Table[T]) All(ctx context.Context) (all []Entry[T], revision int64, err error) {
	for range freshness {
		if all, revision, err = t.all(ctx); !errors.Is(err, rpctypes.ErrCompacted) {
			return all, revision, err
		}
	}
	return nil, 0, err
}

func (t *Table[T]) all(ctx context.Context) (all []Entry[T], at int64, err error) {
	after := ""
	for {
		page, last, more, revision, err := t.page(ctx, after, pageMax, at)
		if err != nil {
			return nil, 0, err
		}
		if at == 0 {
			at = revision
		}
		all, after = append(all, page...), last
		if !more {
			return all, at, nil
		}
	}
}

// Create writes a document that must not be there yet (ConflictError), nor beyond the kind's
// number (FullError). Two that create the last one at the same time may both succeed.
func (t *Table[T]) Create(ctx context.Context, v T, guards ...Guard) (revision int64, err error) {
	pair, err := schema.PairOf(t.kind, v)
	if err != nil {
		return 0, err
	}
	if n, err := t.Count(ctx); err != nil {
		return 0, err
	} else if n >= t.kind.CountMax {
		return 0, fmt.Errorf("%s: %w", t.doing("creating", v.ID()), &FullError{t.kind.Name, t.kind.CountMax})
	}
	return t.put(ctx, "creating", v.ID(), pair.Value, 0, guards)
}

// Update writes a document that was read with this revision and has not changed since
// (ConflictError otherwise).
func (t *Table[T]) Update(ctx context.Context, v T, revision int64, guards ...Guard) (int64, error) {
	pair, err := schema.PairOf(t.kind, v)
	if err != nil {
		return 0, err
	}
	return t.put(ctx, "updating", v.ID(), pair.Value, revision, guards)
}

func (t *Table[T]) put(ctx context.Context, what, id string, value []byte, had int64, guards []Guard) (int64, error) {
	key := t.key(id)
	return t.s.commit(ctx, t.doing(what, id), txn{guards: guards,
		cmps: []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", had)},
		ops:  []clientv3.Op{clientv3.OpPut(key, string(value))},
		look: []clientv3.Op{clientv3.OpGet(key, clientv3.WithKeysOnly())}, differs: t.conflict(id, had)})
}

func (t *Table[T]) conflict(id string, had int64) func(*keyValue) error {
	return func(kv *keyValue) error {
		e := &ConflictError{Kind: t.kind.Name, ID: id, Had: had}
		if kv != nil {
			e.Has = kv.ModRevision
		}
		return e
	}
}

// Change reads a document, lets change alter it, and writes it, again and again while others
// are faster. What change returns as an error ends it and is returned.
func (t *Table[T]) Change(ctx context.Context, id string, change func(*T) error, guards ...Guard) (e Entry[T], err error) {
	for range retries {
		if e, err = t.Get(ctx, id); err != nil {
			return e, err
		}
		if err = change(&e.Value); err != nil {
			return e, err
		}
		var conflict *ConflictError
		if e.Revision, err = t.Update(ctx, e.Value, e.Revision, guards...); !errors.As(err, &conflict) {
			return e, err
		}
	}
	return e, err
}

// Delete removes a document as it was read with this revision; 0: whatever it is now.
// ErrNotFound if there is none.
func (t *Table[T]) Delete(ctx context.Context, id string, revision int64, guards ...Guard) error {
	key := t.key(id)
	tx := txn{guards: guards, ops: []clientv3.Op{clientv3.OpDelete(key)}, look: []clientv3.Op{clientv3.OpGet(key, clientv3.WithKeysOnly())}}
	if revision == 0 {
		tx.cmps = []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), ">", 0)}
		tx.differs = func(*keyValue) error { return ErrNotFound }
	} else {
		tx.cmps = []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", revision)}
		tx.differs = t.conflict(id, revision)
	}
	_, err := t.s.commit(ctx, t.doing("deleting", id), tx)
	return err
}

// Write puts and deletes many documents, whatever they were before: for those that only the
// leader writes. They go in transactions of a hundred, in the order given; an error leaves
// those before it done. An id may be there once only.
func (t *Table[T]) Write(ctx context.Context, puts []T, deletes []string, guards ...Guard) error {
	ops := make([]clientv3.Op, 0, len(puts)+len(deletes))
	ids := make([]string, 0, len(puts))
	for _, id := range deletes {
		ops = append(ops, clientv3.OpDelete(t.key(id)))
	}
	for _, v := range puts {
		pair, err := schema.PairOf(t.kind, v)
		if err != nil {
			return err
		}
		ids = append(ids, v.ID())
		ops = append(ops, clientv3.OpPut(t.key(v.ID()), string(pair.Value)))
	}
	if err := t.room(ctx, ids); err != nil {
		return err
	}
	return t.s.commitAll(ctx, fmt.Sprintf("writing %d %s", len(ops), t.kind.Name), ops, guards)
}

// room refuses documents beyond the kind's number. Which ids are new is only asked where it
// matters.
func (t *Table[T]) room(ctx context.Context, ids []string) error {
	n, err := t.Count(ctx)
	if err != nil || len(ids) == 0 || n+len(ids) <= t.kind.CountMax {
		return err
	}
	for _, id := range ids {
		resp, err := t.s.get(ctx, t.doing("reading", id), t.key(id), clientv3.WithCountOnly())
		if err != nil {
			return err
		}
		if resp.Count == 0 {
			n++
		}
		if n > t.kind.CountMax {
			return fmt.Errorf("writing %s: %w", t.kind.Name, &FullError{t.kind.Name, t.kind.CountMax})
		}
	}
	return nil
}

// commitAll cuts ops into transactions.
func (s *Store) commitAll(ctx context.Context, doing string, ops []clientv3.Op, guards []Guard) error {
	for batch := range batches(ops) {
		if _, err := s.commit(ctx, doing, txn{guards: guards, ops: batch}); err != nil {
			return err
		}
	}
	return nil
}

// batches are within the limits of a transaction.
func batches(ops []clientv3.Op) func(yield func([]clientv3.Op) bool) {
	return func(yield func([]clientv3.Op) bool) {
		start, size := 0, 0
		for i, op := range ops {
			n := len(op.KeyBytes()) + len(op.ValueBytes())
			if i > start && (i-start == opsMax || size+n > bytesMax) {
				if !yield(slices.Clip(ops[start:i])) {
					return
				}
				start, size = i, 0
			}
			size += n
		}
		if start < len(ops) {
			yield(slices.Clip(ops[start:]))
		}
	}
}

// jsonOf is for the documents that are no kind's.
func jsonOf(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}
