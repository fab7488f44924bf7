package parts

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/frontend/ingress"
	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/api/fakecontrol"
	"github.com/symphony-serving/symphony/scheduler/control/client"
)

// overControl is a repository over a control plane in memory.
func overControl(t *testing.T) (ingress.Repository, *fakecontrol.Control, *httptest.Server) {
	f := &fakecontrol.Control{Broken: func(name, version string) string {
		if name == "broken" && version == "2" {
			return "model.onnx: it ends early"
		}
		return ""
	}}
	s := httptest.NewServer(api.New(f, api.Options{}))
	t.Cleanup(s.Close)
	c, err := client.New(client.Options{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for _, name := range []string{"m", "broken"} {
		for _, version := range []string{"1", "2"} {
			if _, err := f.PutVersion(t.Context(), name, version, api.VersionSpec{Source: "file:///m"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return Repository(c), f, s
}

// A load returns when all versions that are wanted are served, with what it overrides.
func TestRepositoryLoads(t *testing.T) {
	r, f, _ := overControl(t)
	slo, batch, drop := 20*time.Millisecond, 4, "head"
	for _, k := range []struct {
		o       ingress.Override
		policy  api.Policy
		serving int
	}{
		{ingress.Override{SLO: &slo, MaxBatch: &batch, DropPolicy: &drop}, api.Policy{Kind: api.PolicyLatest}, 1},
		{ingress.Override{Versions: &ingress.VersionPolicy{All: true}}, api.Policy{Kind: api.PolicyAll}, 2},
		{ingress.Override{Versions: &ingress.VersionPolicy{Specific: []string{"1"}}}, api.Policy{Kind: api.PolicyListed, Listed: []string{"1"}}, 1},
		{ingress.Override{Versions: &ingress.VersionPolicy{Latest: 2}}, api.Policy{Kind: api.PolicyLatest, Latest: 2}, 2},
	} {
		if err := r.Unload(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		if err := r.Load(t.Context(), "m", k.o); err != nil {
			t.Errorf("%+v: %v", k.o, err)
		}
		m, err := f.Model(t.Context(), "m")
		serving := 0
		for _, v := range m.Versions {
			if v.State == api.Serving {
				serving++
			}
		}
		s := m.Settings
		if err != nil || m.Policy.Kind != k.policy.Kind || m.Policy.Latest != k.policy.Latest || len(m.Policy.Listed) != len(k.policy.Listed) || serving != k.serving ||
			s.SLO != api.Span(slo) || s.MaxBatch != batch || s.DropPolicy != drop {
			t.Errorf("%+v: %+v, %v", k.o, m, err)
		}
	}
	all, err := r.Index(t.Context())
	if err != nil || len(all) != 4 || !all[2].Ready || all[2].Name != "m" || all[0].Ready {
		t.Errorf("%+v, %v", all, err)
	}
}

// What goes wrong is told in the ingress's words, with the reason.
func TestRepositoryErrors(t *testing.T) {
	r, f, s := overControl(t)
	both := ingress.Override{Versions: &ingress.VersionPolicy{Specific: []string{"9"}}}
	for what, k := range map[string]struct {
		err  error
		kind error
		text string
	}{
		"not there": {r.Load(t.Context(), "nobody", ingress.Override{}), ingress.ErrNotThere, "nobody"},
		"unload":    {r.Unload(t.Context(), "nobody"), ingress.ErrNotThere, "nobody"},
		"version":   {r.Load(t.Context(), "m", both), ingress.ErrNotTaken, "no version 9"},
		"failed":    {r.Load(t.Context(), "broken", ingress.Override{}), ingress.ErrNotLoaded, "version 2: model.onnx: it ends early"},
	} {
		if !errors.Is(k.err, k.kind) || !strings.Contains(k.err.Error(), k.text) {
			t.Errorf("%s: %v", what, k.err)
		}
	}
	f.SetHeld(true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := r.Load(ctx, "m", ingress.Override{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a load that lasts: %v", err)
	}
	f.SetAway(api.Away(0, false, "etcd does not answer"))
	if _, err := r.Index(t.Context()); !errors.Is(err, ingress.ErrAway) {
		t.Errorf("the store is away: %v", err)
	}
	s.Close()
	if err := r.Unload(t.Context(), "m"); !errors.Is(err, ingress.ErrAway) {
		t.Errorf("the control plane is gone: %v", err)
	}
}
