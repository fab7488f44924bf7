package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// Store is the control plane's state.
type Store struct {
	Models   Table[schema.Model]       // what is wanted: people write it
	Observed Table[schema.Observation] // what became of it: the leader writes it
	Backends Table[schema.Backend]     // who is there: see Register
	Loads    Table[schema.Load]
	Profiles Table[schema.Measured]
	Plans    Table[schema.Plan] // heads, by epoch: see PutPlan
	Controls Table[schema.Control]
	parts    Table[schema.SubCluster]

	// Immutable after Open.
	cfg      Config
	embedded *embedded // nil: the etcd is elsewhere
	client   *clientv3.Client
	ctx      context.Context // ends with Close
	cancel   context.CancelCauseFunc
	health   *health
	session  *session

	schemaValue, identity string // Owned by Open, then by health.

	schema atomic.Int64 // revision of the schema's key: every write compares it
	newest atomic.Int64 // the highest revision that etcd told
	led    atomic.Int64 // the lease of the Lead that this process had last; see campaign
	once   sync.Once

	mu     sync.Mutex // Guards what follows.
	closed bool
	wg     sync.WaitGroup // goroutines that end with ctx; none begins after closed
}

// Open connects, starting the etcd in this process if that is configured, brings the state to
// this program's version, and waits until ctx ends for an etcd elsewhere that does not answer.
// ctx bounds Open only.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Store{cfg: cfg}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.health = newHealth(s)
	s.session = newSession(s)
	s.tables()
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.start(func() { s.health.run(s.ctx) })
	s.start(func() { s.session.run(s.ctx) })
	return s, nil
}

func (s *Store) tables() {
	s.Models = Table[schema.Model]{s, schema.Models()}
	s.Observed = Table[schema.Observation]{s, schema.Observed()}
	s.Backends = Table[schema.Backend]{s, schema.Backends()}
	s.Loads = Table[schema.Load]{s, schema.Loads()}
	s.Profiles = Table[schema.Measured]{s, schema.Profiles()}
	s.Plans = Table[schema.Plan]{s, schema.Plans()}
	s.Controls = Table[schema.Control]{s, schema.Controls()}
	s.parts = Table[schema.SubCluster]{s, schema.Parts()}
}

func (s *Store) open(ctx context.Context) error {
	if s.cfg.Metrics != nil {
		for _, m := range s.health.metrics() {
			if err := s.cfg.Metrics.Register(m); err != nil {
				return fmt.Errorf("metrics of the control plane's store: %w", err)
			}
		}
	}
	endpoints := s.cfg.Endpoints
	if s.cfg.embedded() {
		var err error
		if s.embedded, err = startEmbedded(ctx, s.cfg); err != nil {
			s.embedded = nil // it has cleaned up
			return err
		}
		endpoints = []string{s.embedded.endpoint}
	}
	if err := s.await(ctx, endpoints); err != nil {
		return err
	}
	if s.embedded != nil {
		return s.tidy(ctx)
	}
	return nil
}

// await connects, for as long as ctx allows.
func (s *Store) await(ctx context.Context, endpoints []string) error {
	var last *AwayError
	said := ""
	for {
		err := s.connect(ctx, endpoints)
		var gone *AwayError
		switch {
		case s.ctx.Err() != nil:
			return err
		case err == nil:
			s.arrived(said != "")
			return nil
		case errors.As(err, &gone):
			last = gone
		case ctx.Err() != nil && last != nil:
			return errors.Join(err, last)
		case ctx.Err() != nil:
			return &AwayError{Where: s.cfg.where(), Doing: "opening the control plane's state", Hint: s.cfg.hint(), Cause: err}
		case said == "" || s.cfg.Waiting == nil:
			return err
		}
		if gone != nil && said == "" {
			said = gone.Cause.Error()
			s.waits(err, said, "the control plane's etcd does not answer yet: waiting for it")
		} else if text := plainCause(err).Error(); gone == nil && text != said {
			said = text
			s.waits(err, said, "the control plane's etcd is there, and cannot be used as it is: trying on")
		}
		if !sleep(ctx, dialEvery) {
			return err
		}
	}
}

// waits says why there is no etcd yet.
func (s *Store) waits(err error, why, text string) {
	s.health.away.Set(1)
	s.cfg.Logger.Warn().Str("where", s.cfg.where()).Str("why", why).Msg(text)
	if s.cfg.Waiting != nil {
		s.cfg.Waiting(err)
	}
}

// arrived says that it is there, if it was waited for.
func (s *Store) arrived(late bool) {
	s.health.away.Set(0)
	if late {
		s.cfg.Logger.Info().Str("where", s.cfg.where()).Msg("the control plane's etcd is there")
	}
}

// connect logs in, and looks at the schema.
func (s *Store) connect(ctx context.Context, endpoints []string) error {
	if s.client == nil {
		base := context.WithValue(s.ctx, noteKey{}, &note{caller: ctx}) // of the login, if there is one
		client, err := newClient(base, s.cfg, endpoints)
		if err != nil {
			return s.wrong(base, "connecting", false, err)
		}
		s.client = client
	}
	return s.prepare(ctx)
}

// Close ends everything: leadership is resigned and registrations are taken back, if etcd
// answers; an etcd in this process is ended, with all on its disk.
func (s *Store) Close() (err error) {
	s.once.Do(func() {
		s.session.end()
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.cancel(ErrClosed)
		s.wg.Wait()
		if s.client != nil {
			if cerr := s.client.Close(); cerr != nil && !errors.Is(cerr, context.Canceled) {
				err = cerr
			}
		}
		if s.embedded != nil {
			err = errors.Join(err, s.embedded.stop(s.cfg.Logger))
		}
		if s.cfg.Metrics != nil {
			for _, m := range s.health.metrics() {
				s.cfg.Metrics.Unregister(m)
			}
		}
	})
	return err
}

// start runs f, which ends with ctx, unless the store is closed.
func (s *Store) start(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Go(f)
	return true
}

// Endpoint is where others on this machine reach the same state: of the etcd in this process.
func (s *Store) Endpoint() string {
	if s.embedded == nil {
		return ""
	}
	return s.embedded.endpoint
}

// Where says where the state is, for logs and people.
func (s *Store) Where() string {
	if s.embedded != nil && s.embedded.folder.temp {
		place := "on disk"
		if s.embedded.folder.inMemory() {
			place = "in memory"
		}
		return fmt.Sprintf("the etcd in this process, %s (%s), gone at the end", place, s.embedded.folder.path)
	}
	return s.cfg.where()
}

// died is why an etcd in this process ended by itself; empty: it did not.
func (s *Store) died() string {
	if s.embedded != nil {
		if why := s.embedded.died.Load(); why != nil {
			return *why
		}
	}
	return ""
}

// begin starts a call: it fails at once while etcd is known to be away.
func (s *Store) begin(ctx context.Context, doing string) (context.Context, context.CancelFunc, error) {
	if s.ctx.Err() != nil {
		return nil, nil, fmt.Errorf("%s: %w", doing, ErrClosed)
	}
	if st, _ := s.State(); st.Away {
		return nil, nil, &AwayError{Where: s.cfg.where(), Doing: doing, Since: st.Since, Hint: s.cfg.hint(), Cause: errors.New(st.Why)}
	}
	call, cancel := s.limit(ctx)
	return call, cancel, nil
}

// key is of the version's folder.
func (s *Store) key(below string) string { return s.cfg.Prefix + schema.Of(s.cfg.version) + below }

func (s *Store) schemaKey() string { return s.cfg.Prefix + schema.SchemaKey }

// Guard makes a write hold only while a Lead leads.
type Guard struct {
	key     string
	created int64 // revision
}

// Limits of a transaction: etcd takes 128 operations and 1.5 MiB by default.
const (
	opsMax   = 100
	bytesMax = 1 << 20
)

// commit carries out ops if the schema is as it was, the guards hold, and cmps do. It returns
// the revision that they made. differs is called with the answers to look, where only cmps
// do not hold.
func (s *Store) commit(ctx context.Context, doing string, t txn) (int64, error) {
	call, cancel, err := s.begin(ctx, doing)
	if err != nil {
		return 0, err
	}
	defer cancel()
	cmps := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(s.schemaKey()), "=", s.schema.Load())}
	look := []clientv3.Op{clientv3.OpGet(s.schemaKey())}
	for _, g := range t.guards {
		cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(g.key), "=", g.created))
		look = append(look, clientv3.OpGet(g.key, clientv3.WithKeysOnly()))
	}
	resp, err := s.client.Txn(call).If(append(cmps, t.cmps...)...).Then(t.ops...).Else(append(look, t.look...)...).Commit()
	if err != nil {
		return 0, s.wrong(call, doing, true, err)
	}
	s.told(resp.Header.Revision)
	if resp.Succeeded {
		return resp.Header.Revision, nil
	}
	seen := func(i int) *keyValue {
		if kvs := resp.Responses[i].GetResponseRange().GetKvs(); len(kvs) > 0 {
			return kvs[0]
		}
		return nil
	}
	if kv := seen(0); kv == nil || kv.ModRevision != s.schema.Load() {
		s.health.doubt() // it looks at the schema
		return 0, fmt.Errorf("%s: %w", doing, s.misfit(kv))
	}
	for i, g := range t.guards {
		if kv := seen(1 + i); kv == nil || kv.CreateRevision != g.created {
			return 0, fmt.Errorf("%s: %w", doing, ErrNotLeading)
		}
	}
	if t.differs == nil {
		return 0, fmt.Errorf("%s: etcd refused it without a reason", doing)
	}
	return 0, fmt.Errorf("%s: %w", doing, t.differs(seen(1+len(t.guards))))
}

// told remembers the highest revision that etcd told: one that has less later is another one.
func (s *Store) told(revision int64) {
	for now := s.newest.Load(); revision > now; now = s.newest.Load() {
		if s.newest.CompareAndSwap(now, revision) {
			return
		}
	}
}

// txn is what commit carries out.
type txn struct {
	guards  []Guard
	cmps    []clientv3.Cmp
	ops     []clientv3.Op
	look    []clientv3.Op              // answered where cmps do not hold
	differs func(seen *keyValue) error // what look's first found; nil: nothing
}

// nowUnix is the wall clock, for documents.
func nowUnix() int64 { return time.Now().UnixNano() }
