package store

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// schemaDoc is the value of the schema's key.
//
// A migration goes like this:
//
//	1  one transaction takes the lock (a key with a lease) and writes Migrating. That changes
//	   the schema key's revision, which every write compares: writers of the old version stop.
//	2  all of the old version is read at that revision, turned, and written beside it, in as
//	   many transactions as it takes. Nobody reads it yet.
//	3  one transaction sets the version and deletes the old folder and the lock.
//
// Whoever dies in between leaves the old version whole: the next one begins again, or, if it
// is a program of the old version, takes Migrating back.
type schemaDoc struct {
	Version   int    `json:"version"`
	Migrating int    `json:"migrating,omitempty"` // the version to come; 0: none
	ID        string `json:"id,omitempty"`        // of this state, drawn when it was made: another etcd has another
}

const (
	lockTTL  = 30 * time.Second
	lockLook = 500 * time.Millisecond // between two looks at another's lock
)

// prepare makes sure that the state has this program's version, and remembers the revision of
// the key that says so.
func (s *Store) prepare(ctx context.Context) error {
	for {
		again, err := s.prepareOnce(ctx)
		if err != nil || !again {
			return err
		}
	}
}

func (s *Store) prepareOnce(ctx context.Context) (again bool, err error) {
	resp, err := s.rawGet(ctx, "reading the schema", s.schemaKey())
	if err != nil {
		return false, err
	}
	if len(resp.Kvs) == 0 {
		return s.found(ctx)
	}
	kv := resp.Kvs[0]
	var doc schemaDoc
	if err := json.Unmarshal(kv.Value, &doc); err != nil || doc.Version < 0 {
		return false, &SchemaError{fmt.Sprintf("%s: %s is %.80q, which is no schema of Symphony's: choose another control.prefix, or delete what is below it", s.cfg.where(), s.schemaKey(), kv.Value)}
	}
	switch {
	case doc.Version > s.cfg.version || doc.Migrating > s.cfg.version:
		locked, err := s.rawGet(ctx, "reading the schema", s.cfg.Prefix+schema.LockKey)
		if err != nil || doc.Version > s.cfg.version || len(locked.Kvs) > 0 {
			return false, errors.Join(err, s.misfit(kv))
		}
		return s.takeBack(ctx, doc, kv.ModRevision)
	case doc.Version < s.cfg.version:
		return true, s.migrate(ctx, doc, kv.ModRevision)
	case doc.Migrating != 0:
		return s.takeBack(ctx, doc, kv.ModRevision)
	}
	s.schema.Store(kv.ModRevision)
	s.schemaValue, s.identity = string(kv.Value), doc.ID
	return false, nil
}

// rawGet reads without asking health, which calls prepare itself.
func (s *Store) rawGet(ctx context.Context, doing, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	call, cancel := s.limit(ctx)
	defer cancel()
	resp, err := s.client.Get(call, key, opts...)
	return resp, s.wrong(call, doing, false, err)
}

func (s *Store) rawTxn(ctx context.Context, doing string, cmps []clientv3.Cmp, ops []clientv3.Op) (*clientv3.TxnResponse, error) {
	call, cancel := s.limit(ctx)
	defer cancel()
	resp, err := s.client.Txn(call).If(cmps...).Then(ops...).Commit()
	return resp, s.wrong(call, doing, true, err)
}

// misfit says why the schema key's value does not fit; nil: it is gone.
func (s *Store) misfit(kv *keyValue) error {
	var doc schemaDoc
	if kv == nil || json.Unmarshal(kv.Value, &doc) != nil {
		return &SchemaError{fmt.Sprintf("%s has lost its schema (%s): it is made again with the next call, or restore a backup", s.cfg.where(), s.schemaKey())}
	}
	if v := max(doc.Version, doc.Migrating); v > s.cfg.version {
		return &SchemaError{fmt.Sprintf("%s has schema version %d, and this program knows versions up to %d: update it (an older program never writes a newer state)", s.cfg.where(), v, s.cfg.version)}
	}
	return &SchemaError{fmt.Sprintf("%s: the schema was written again meanwhile: repeat the call", s.cfg.where())}
}

// found makes the schema where there is nothing. Documents without a schema are not ours.
func (s *Store) found(ctx context.Context) (again bool, err error) {
	resp, err := s.rawGet(ctx, "looking for the schema", s.cfg.Prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return false, err
	}
	if resp.Count > 0 {
		return false, &SchemaError{fmt.Sprintf("%s has %d keys below %s and no schema of Symphony's (%s): they belong to something else: choose another control.prefix", s.cfg.where(), resp.Count, s.cfg.Prefix, s.schemaKey())}
	}
	text, err := jsonOf(schemaDoc{Version: s.cfg.version, ID: rand.Text()})
	if err != nil {
		return false, err
	}
	_, err = s.rawTxn(ctx, "writing the schema", []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(s.schemaKey()), "=", 0)},
		[]clientv3.Op{clientv3.OpPut(s.schemaKey(), text)})
	return true, err // whoever was first: read it
}

// takeBack ends a migration that was given up: nothing of the old version has changed.
func (s *Store) takeBack(ctx context.Context, doc schemaDoc, revision int64) (again bool, err error) {
	text, err := jsonOf(schemaDoc{Version: doc.Version, ID: doc.ID})
	if err != nil {
		return false, err
	}
	_, err = s.rawTxn(ctx, "taking a migration back", []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(s.schemaKey()), "=", revision),
		clientv3.Compare(clientv3.CreateRevision(s.cfg.Prefix+schema.LockKey), "=", 0),
	}, []clientv3.Op{clientv3.OpPut(s.schemaKey(), text), clientv3.OpDelete(s.cfg.Prefix+schema.Of(doc.Migrating), clientv3.WithPrefix())})
	return true, err
}

// migrate brings the state from a version to this program's, or waits for another process
// that does. A nil error: look again.
func (s *Store) migrate(ctx context.Context, doc schemaDoc, revision int64) error {
	lease, err := s.grant(ctx, lockTTL)
	if err != nil {
		return err
	}
	defer lease.revoke()
	text, err := jsonOf(schemaDoc{Version: doc.Version, Migrating: s.cfg.version, ID: doc.ID})
	if err != nil {
		return err
	}
	lockKey := s.cfg.Prefix + schema.LockKey
	resp, err := s.rawTxn(ctx, "beginning a migration", []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(s.schemaKey()), "=", revision), clientv3.Compare(clientv3.CreateRevision(lockKey), "=", 0),
	}, []clientv3.Op{clientv3.OpPut(s.schemaKey(), text), clientv3.OpPut(lockKey, "", clientv3.WithLease(lease.id))})
	if err != nil {
		return err
	}
	if !resp.Succeeded {
		if !sleep(ctx, lockLook) {
			return fmt.Errorf("another process migrates the state: %w", context.Cause(ctx))
		}
		return nil
	}
	began := time.Now()
	held, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		stop(lease.keep(held))
	}()
	defer func() { stop(nil); <-kept }()
	n, err := s.migrateLocked(held, doc, resp.Header.Revision)
	if err != nil {
		return fmt.Errorf("schema version %d to %d: %w; nothing of it is in force, the state is as it was", doc.Version, s.cfg.version, err)
	}
	s.cfg.Logger.Info().Int("from", doc.Version).Int("to", s.cfg.version).Int("documents", n).Dur("took", time.Since(began)).Msg("the control plane's state was migrated")
	return nil
}

// migrateLocked does it while the lock is held; revision is that of the schema's key and of
// the lock.
func (s *Store) migrateLocked(ctx context.Context, doc schemaDoc, revision int64) (documents int, err error) {
	from := doc.Version
	pairs, err := s.readVersion(ctx, from, revision)
	if err != nil {
		return 0, err
	}
	pairs, err = schema.Migrate(s.cfg.migrations, pairs, from, s.cfg.version)
	if err != nil {
		return 0, err
	}
	lock := clientv3.Compare(clientv3.CreateRevision(s.cfg.Prefix+schema.LockKey), "=", revision)
	carry := func(ops ...clientv3.Op) error {
		resp, err := s.rawTxn(ctx, "migrating", []clientv3.Cmp{lock}, ops)
		if err == nil && !resp.Succeeded {
			err = errors.New("the lock was lost: etcd did not answer for too long")
		}
		return err
	}
	target := s.cfg.Prefix + schema.Of(s.cfg.version)
	if err := carry(clientv3.OpDelete(target, clientv3.WithPrefix())); err != nil { // what one that died had written
		return 0, err
	}
	ops := make([]clientv3.Op, len(pairs))
	for i, p := range pairs {
		ops[i] = clientv3.OpPut(target+p.Key, string(p.Value))
	}
	for batch := range batches(ops) {
		if err := carry(batch...); err != nil {
			return 0, err
		}
	}
	if doc.ID == "" { // earlier versions had none
		doc.ID = rand.Text()
	}
	text, err := jsonOf(schemaDoc{Version: s.cfg.version, ID: doc.ID})
	if err != nil {
		return 0, err
	}
	return len(pairs), carry(clientv3.OpPut(s.schemaKey(), text), clientv3.OpDelete(s.cfg.Prefix+schema.Of(from), clientv3.WithPrefix()),
		clientv3.OpDelete(s.cfg.Prefix+schema.LockKey))
}

// readVersion reads all documents of a version but those that belong to leases.
func (s *Store) readVersion(ctx context.Context, version int, revision int64) (pairs []schema.Pair, err error) {
	folder := s.cfg.Prefix + schema.Of(version)
	for from := folder; ; {
		resp, err := s.rawGet(ctx, "reading what is to be migrated", from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(folder)), clientv3.WithLimit(pageMax), clientv3.WithRev(revision))
		if err != nil {
			return nil, err
		}
		for _, kv := range resp.Kvs {
			if kv.Lease == 0 {
				pairs = append(pairs, schema.Pair{Key: strings.TrimPrefix(string(kv.Key), folder), Value: kv.Value})
			}
			from = string(kv.Key) + "\x00"
		}
		if !resp.More {
			return pairs, nil
		}
	}
}
