package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

func prefixed() []clientv3.OpOption { return []clientv3.OpOption{clientv3.WithPrefix()} }

// put writes what no program of this version writes.
func put(t *testing.T, c *clientv3.Client, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if _, err := c.Put(limited(t), PrefixDefault+pairs[i], pairs[i+1]); err != nil {
			t.Fatal(err)
		}
	}
}

// draft is a state of version 0.
func draft() []string {
	version := func(n, created int, rest string) []string {
		return []string{"0/models/team%2Fr%C3%A9sum%C3%A9/" + fmt.Sprint(n),
			fmt.Sprintf(`{"name":"team/résumé","version":"%d","url":"s3://models/%d","digest":"sha256:%02d","bytes":%d,"created":%d,"drop_policy":"head",%s}`, n, n, n, n, created, rest)}
	}
	all := []string{"schema", `{"version":0}`, "0/models/bert/1", `{"name":"bert","version":"1","url":"file:///models/bert/1","created":1600000000,"stopped":true,"share":5}`,
		"0/profiles/team%2Fr%C3%A9sum%C3%A9/10/nvidia-h100", `{"alpha_ms":1.053,"beta_ms":5.072,"static":100,"dynamic":200}`,
		"0/plan", `{"pools":[]}`}
	all = append(all, version(8, 1600000008, `"slo_ms":20,"batch":16,"stopped":true`)...)
	all = append(all, version(9, 1600000009, `"slo_ms":40,"batch":8,"share":75`)...)
	return append(all, version(10, 1600000010, `"slo_ms":50,"batch":16,"share":25`)...)
}

// raw is an etcd without a schema, in a process of its own folder.
func raw(t *testing.T, dir string) (endpoint string, c *clientv3.Client) {
	t.Helper()
	cfg := Config{Data: dir, Listen: "127.0.0.1:0"}.withDefaults()
	e, err := startEmbedded(limited(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = newClient(context.Background(), cfg, []string{e.endpoint}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), e.stop(cfg.Logger)); err != nil {
			t.Error(err)
		}
	})
	return e.endpoint, c
}

// Several processes open an old state at the same time: one migrates, all go on. One that
// died in the middle before has left nothing that holds.
func TestOneMigrates(t *testing.T) {
	endpoint, c := raw(t, t.TempDir())
	const models = 3000
	put(t, c, draft()...)
	put(t, c, "schema", `{"version":0,"migrating":1}`, "1/models/left%20by%20one%20that%20died", "{}")
	var ops []clientv3.Op
	for i := range models {
		text := fmt.Sprintf(`{"name":"m%d","version":"1","url":"file:///m","created":1,"slo_ms":1}`, i)
		ops = append(ops, clientv3.OpPut(fmt.Sprintf("%s0/models/m%d/1", PrefixDefault, i), text))
	}
	for batch := range batches(ops) {
		if _, err := c.Txn(limited(t)).Then(batch...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	lease, err := c.Grant(limited(t), 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(limited(t), PrefixDefault+"0/models/live/1", "not for long", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	stores, logs := make([]*Store, 3), make([]*logged, 3)
	for i := range stores {
		logs[i] = &logged{}
		wg.Go(func() {
			var err error
			if stores[i], err = Open(limited(t), Config{Endpoints: []string{endpoint}, Logger: logger(logs[i])}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	migrated := 0
	for i, s := range stores {
		if s == nil {
			return
		}
		defer s.Close()
		if n, err := s.Models.Count(limited(t)); n != models+2 || err != nil {
			t.Errorf("%d models, %v", n, err)
		}
		migrated += logs[i].count("was migrated")
	}
	for i, s := range stores {
		if _, err := s.Models.Create(limited(t), model(fmt.Sprint("new", i))); err != nil {
			t.Error(err)
		}
	}
	if migrated != 1 {
		t.Errorf("%d migrated", migrated)
	}
}

// later is a program of the next version.
func later(endpoint string) Config {
	return Config{Endpoints: []string{endpoint}, version: schema.Version + 1, migrations: append(schema.Migrations(),
		schema.Migration{From: schema.Version, What: "nothing changes", Apply: func(p []schema.Pair) ([]schema.Pair, error) { return p, nil }})}
}

// The next version opens the state of this one while a program of this version runs: that one
// writes no more, and says why; and is refused at its start.
func TestOlderProgramsAreRefused(t *testing.T) {
	t.Parallel()
	endpoint, _ := raw(t, t.TempDir())
	cfg := Config{Endpoints: []string{endpoint}}
	old, _ := open(t, cfg)
	if _, err := old.Models.Create(limited(t), model("m")); err != nil {
		t.Fatal(err)
	}
	next, _ := open(t, later(endpoint))
	if e, err := next.Models.Get(limited(t), "m"); err != nil || e.Value.Name != "m" {
		t.Errorf("%+v, %v", e, err)
	}
	refused := func(err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "schema version 2") || !strings.Contains(err.Error(), "update it") {
			t.Errorf("%v", err)
		}
	}
	_, err := old.Models.Create(limited(t), model("n"))
	refused(err)
	_, err = Open(limited(t), cfg)
	refused(err)
	until(t, "the old program knows it", func() bool { st, _ := old.State(); return st.Away && strings.Contains(st.Why, "schema version 2") })
	_, err = old.Models.Get(limited(t), "m")
	refused(err)
}

// A migration that fails leaves the old version as it was, and names the document; a program
// of the old version goes on with it.
func TestFailedMigration(t *testing.T) {
	endpoint, _ := raw(t, t.TempDir())
	cfg := Config{Endpoints: []string{endpoint}}
	old, _ := open(t, cfg)
	if _, err := old.Models.Create(limited(t), model("m")); err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	bad := later(endpoint)
	bad.migrations[len(bad.migrations)-1].Apply = func(p []schema.Pair) ([]schema.Pair, error) {
		return nil, fmt.Errorf("%s: is broken", p[0].Key)
	}
	if _, err := Open(limited(t), bad); err == nil || !strings.Contains(err.Error(), "models/m: is broken") || !strings.Contains(err.Error(), "as it was") {
		t.Errorf("%v", err)
	}
	missing := later(endpoint)
	missing.version++
	if _, err := Open(limited(t), missing); err == nil || !strings.Contains(err.Error(), "no migration leads from version 2 to 3") {
		t.Errorf("%v", err)
	}
	again, _ := open(t, cfg)
	if e, err := again.Models.Change(limited(t), "m", func(m *schema.Model) error { m.Desired = schema.Stopped; return nil }); err != nil {
		t.Errorf("%+v, %v", e, err)
	}
	next, _ := open(t, later(endpoint))
	if e, err := next.Models.Get(limited(t), "m"); err != nil || e.Value.Desired != schema.Stopped {
		t.Errorf("%+v, %v", e, err)
	}
}

// Keys of others are left alone.
func TestStrangersKeys(t *testing.T) {
	endpoint, c := raw(t, t.TempDir())
	cfg := Config{Endpoints: []string{endpoint}}
	put(t, c, "something", "else")
	if _, err := Open(limited(t), cfg); err == nil || !strings.Contains(err.Error(), "choose another control.prefix") {
		t.Errorf("%v", err)
	}
	put(t, c, "schema", "a string")
	if _, err := Open(limited(t), cfg); err == nil || !strings.Contains(err.Error(), "which is no schema of Symphony's") {
		t.Errorf("%v", err)
	}
	cfg.Prefix = "/other/"
	s, _ := open(t, cfg)
	if _, err := s.Models.Create(limited(t), model("m")); err != nil {
		t.Error(err)
	}
	var wrong *SchemaError
	cfg.Prefix = "/"
	if _, err := Open(limited(t), cfg); err == nil || errors.As(err, &wrong) {
		t.Errorf("%v", err)
	}
}
