package controller

import (
	"errors"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/store"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// What was learnt of files is told as long as they are the version's; while those are served others
// are refused, and the same elsewhere are taken, which forgets nothing.
func TestFiles(t *testing.T) {
	c := newController(t)
	digest, other := strings.Repeat("0a", 16), strings.Repeat("0b", 16)
	ctx := t.Context()
	if _, err := c.PutVersion(ctx, "m", "1", api.VersionSpec{Source: "file:///models/m"}); err != nil {
		t.Fatal(err)
	}
	stamp := func() int64 {
		e, err := c.cfg.Store.Models.Get(ctx, schema.ID("m"))
		if err != nil {
			t.Fatal(err)
		}
		return e.Value.Versions[0].Files()
	}
	added := stamp()
	// The leader, which has no scheduler, tells once that the version waits for one.
	if !c.seen(ctx, func() bool { return c.view.observed["m"]["1"].State != "" }) {
		t.Fatal("nobody leads")
	}
	c.view.mu.Lock()
	c.view.setObserved(store.Change[schema.Observation]{ID: schema.ID("m", "1"),
		Value: schema.Observation{Model: "m", Version: "1", State: schema.Serving, Digest: digest, Bytes: 7, Files: added}})
	c.view.mu.Unlock()
	m, err := c.Model(ctx, "m")
	if v := m.Find("1"); err != nil || v.LoadedDigest != digest || v.LoadedBytes != 7 || v.Digest != "" {
		t.Fatalf("%+v, %v", m, err)
	}
	if _, err := c.PutVersion(ctx, "m", "1", api.VersionSpec{Source: "file:///models/m", Digest: other}); !errors.Is(err, &api.Error{Kind: api.KindConflict}) || !strings.Contains(err.Error(), digest) {
		t.Errorf("added again with another digest than its files have: %v", err)
	}
	for _, f := range []api.Files{{Source: "file:///models/m"}, {Source: "file:///models/m", Digest: other}} {
		if _, err := c.SetFiles(ctx, "m", "1", f); !errors.Is(err, &api.Error{Kind: api.KindConflict}) || !strings.Contains(err.Error(), "--unload") {
			t.Errorf("%+v of a version that is served: %v", f, err)
		}
	}
	if m, err = c.SetFiles(ctx, "m", "1", api.Files{Source: "file:///elsewhere", Digest: digest}); err != nil || stamp() != added || m.Find("1").Source != "file:///elsewhere" {
		t.Errorf("the same files elsewhere: %+v, %v, %d", m, err, stamp())
	}
	c.view.mu.Lock()
	c.view.setObserved(store.Change[schema.Observation]{ID: schema.ID("m", "1"),
		Value: schema.Observation{Model: "m", Version: "1", State: schema.Failed, Reason: "other files", Digest: digest, Bytes: 7, Files: added}})
	c.view.mu.Unlock()
	if m, err = c.SetFiles(ctx, "m", "1", api.Files{Source: "file:///elsewhere"}); err != nil || stamp() <= added || m.Find("1").LoadedDigest != "" {
		t.Errorf("whatever is there: %+v, %v, %d", m, err, stamp())
	}
}
