package store

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// An etcd of its own is killed and started again with its files: the store waits for it at
// the start, says when it goes and is back, and registers again.
func TestKilledEtcd(t *testing.T) {
	t.Parallel()
	e := newEtcd(t, "http")
	opened := make(chan *Store, 1)
	log := &logged{}
	go func() {
		s, err := Open(limited(t), Config{Endpoints: []string{e.endpoint()}, Timeout: time.Second, LeaseTTL: killedTTL, Logger: logger(log)})
		if err != nil {
			t.Error(err)
		}
		opened <- s
	}()
	until(t, "it is said that etcd is not there", func() bool { return log.count("waiting for it") == 1 })
	kill := e.start(t)
	s := <-opened
	if s == nil {
		return
	}
	defer s.Close()
	ctx := limited(t)
	if _, err := s.Models.Create(ctx, model("m")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Register(schema.Backend{Name: "b"}); err != nil {
		t.Fatal(err)
	}
	lead := <-campaign(t, s, "me")
	watch := s.Models.Watch(t.Context(), 0)
	if _, err := watch.Next(ctx); err != nil {
		t.Fatal(err)
	}
	kill()
	until(t, "it is known to be away", func() bool { st, _ := s.State(); return st.Away })
	<-lead.Context().Done()
	e.start(t)
	if err := s.Await(ctx); err != nil {
		t.Fatal(err)
	}
	back, again := time.Now(), campaign(t, s, "me")
	if got, err := s.Models.Get(ctx, "m"); err != nil || got.Value.Name != "m" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := s.Models.Create(ctx, model("n")); err != nil {
		t.Error(err)
	}
	if c, err := watch.Next(ctx); err != nil || len(c.Changes) != 1 || c.Changes[0].ID != "n" {
		t.Errorf("the watch tells %+v, %v", c, err)
	}
	until(t, "the backend is registered again", func() bool { n, err := s.Backends.Count(ctx); return err == nil && n == 1 })
	if lead := <-again; lead == nil {
		t.Error("nobody leads")
	}
	if took := time.Since(back); took > killedTTL*3/4 {
		t.Errorf("it leads %v after etcd's return: it waited for its own lease of before", took)
	}
}

// killedTTL is long beside what a campaign takes: etcd, started again, counts it from its start.
const killedTTL = 8 * time.Second

// Behind the same address is another etcd, empty: the schema is made anew, the watch tells
// that all is gone, and what is registered is registered there.
func TestAnotherEtcd(t *testing.T) {
	t.Parallel()
	e := newEtcd(t, "http")
	kill := e.start(t)
	s, log := open(t, Config{Endpoints: []string{e.endpoint()}, Timeout: time.Second, LeaseTTL: 2 * time.Second})
	ctx := limited(t)
	for _, n := range []string{"m", "n"} {
		if _, err := s.Models.Create(ctx, model(n)); err != nil {
			t.Fatal(err)
		}
	}
	watch := s.Models.Watch(t.Context(), 0)
	if c, err := watch.Next(ctx); err != nil || len(c.Changes) != 2 {
		t.Fatalf("%+v, %v", c, err)
	}
	if _, err := s.Register(schema.Backend{Name: "b"}); err != nil {
		t.Fatal(err)
	}
	until(t, "the backend is registered", func() bool { n, err := s.Backends.Count(ctx); return err == nil && n == 1 })
	kill()
	if err := os.RemoveAll(e.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(e.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	e.start(t)
	gone := map[string]bool{}
	for len(gone) < 2 {
		c, err := watch.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range c.Changes {
			gone[one.ID] = one.Gone
		}
	}
	if !gone["m"] || !gone["n"] {
		t.Errorf("told %v", gone)
	}
	if err := s.Await(ctx); err != nil {
		t.Fatal(err)
	}
	until(t, "the backend is registered there", func() bool { n, err := s.Backends.Count(ctx); return err == nil && n == 1 })
	if _, err := s.Models.Create(ctx, model("m")); err != nil {
		t.Error(err)
	}
	if log.count("is another one") == 0 {
		t.Error("not said")
	}
}

// etcd with TLS, certificates of clients, users and passwords: what is right works for as
// long as it is right, what is wrong is named.
func TestSecured(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert, key := ca.issue(t, "server")
	mine, mineKey := ca.issue(t, "symphony")
	e := newEtcd(t, "https", "--cert-file="+cert, "--key-file="+key, "--client-cert-auth", "--trusted-ca-file="+ca.dir+"/ca.crt", "--bcrypt-cost=4", "--auth-token-ttl=2")
	e.start(t)
	secured(t, e, ca, mine, mineKey)
	base := Config{Endpoints: []string{e.endpoint()}, CA: ca.dir + "/ca.crt", Cert: mine, Key: mineKey, Timeout: time.Second}
	with := func(change func(*Config)) Config {
		c := base
		change(&c)
		return c
	}
	user := with(func(c *Config) { c.User, c.Password = "scheduling", "secret" })
	s, _ := open(t, user)
	ctx := limited(t)
	if _, err := s.Models.Create(ctx, model("m")); err != nil {
		t.Fatal(err)
	}
	w := s.Models.Watch(t.Context(), 0)
	if c, err := w.Next(ctx); err != nil || len(c.Changes) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
	byName, _ := open(t, base) // the user is the certificate's common name
	if e, err := byName.Models.Get(ctx, "m"); err != nil || e.Value.Name != "m" {
		t.Errorf("%+v, %v", e, err)
	}
	time.Sleep(3 * time.Second) // a login's token has ended by now
	if _, err := s.Models.Create(ctx, model("n")); err != nil {
		t.Errorf("after the token's end: %v", err)
	}
	if c, err := w.Next(ctx); err != nil || len(c.Changes) != 1 || c.Changes[0].ID != "n" {
		t.Errorf("the watch tells %+v, %v", c, err)
	}
	other := newAuthority(t)
	for want, c := range map[string]Config{
		"refuses user \"scheduling\"": with(func(c *Config) { c.User, c.Password = "scheduling", "wrong-secret" }),
		"grant it a role":             with(func(c *Config) { *c = user; c.Prefix = "/elsewhere/" }),
		"certificate":                 with(func(c *Config) { c.CA = other.dir + "/ca.crt" }),
		"does not answer":             with(func(c *Config) { c.Cert, c.Key = "", "" }),
		"control.cert":                with(func(c *Config) { c.Key = ca.dir + "/ca.key" }),
		"holds no certificate":        with(func(c *Config) { c.CA = mineKey }),
	} {
		brief, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		s, err := Open(brief, c)
		cancel()
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret\"") || strings.Contains(err.Error(), "wrong-secret") {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// secured sets the users of an etcd up, as its operator would.
func secured(t *testing.T, e *etcdAt, ca *authority, cert, key string) {
	t.Helper()
	ctx := limited(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	conf := (&Config{CA: ca.dir + "/ca.crt"})
	roots, err := conf.tls()
	if err != nil {
		t.Fatal(err)
	}
	roots.Certificates = []tls.Certificate{pair}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{e.endpoint()}, TLS: roots, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	until(t, "etcd answers", func() bool { _, err := c.Get(ctx, "x"); return err == nil })
	fail := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fail(c.UserAdd(ctx, "root", "root"))
	fail(c.UserGrantRole(ctx, "root", "root"))
	fail(c.RoleAdd(ctx, "symphony"))
	fail(c.RoleGrantPermission(ctx, "symphony", PrefixDefault, clientv3.GetPrefixRangeEnd(PrefixDefault), clientv3.PermissionType(clientv3.PermReadWrite)))
	for _, user := range []string{"scheduling", "symphony"} {
		fail(c.UserAdd(ctx, user, "secret"))
		fail(c.UserGrantRole(ctx, user, "symphony"))
	}
	fail(c.AuthEnable(ctx))
}

// Open waits for an etcd that is not there as long as its context allows, and says what to do.
func TestNobodyAnswers(t *testing.T) {
	e := newEtcd(t, "http")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := Open(ctx, Config{Endpoints: []string{e.endpoint()}})
	if err == nil || !strings.Contains(err.Error(), e.endpoint()) || !strings.Contains(err.Error(), "control.endpoints") {
		t.Errorf("%v", err)
	}
	if _, err := Open(t.Context(), Config{}); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
