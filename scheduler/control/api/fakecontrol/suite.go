package fakecontrol

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/api"
)

// Suite is what every api.Control promises. start makes an empty one; nothing is asked of what
// becomes of versions, so that it needs neither scheduler nor backends.
func Suite(t *testing.T, start func(t *testing.T) api.Control) {
	for name, test := range map[string]func(*suite){
		"versions": (*suite).versions, "names": (*suite).names, "settings": (*suite).settings, "policy": (*suite).policy,
		"shares": (*suite).shares, "desired": (*suite).desired, "pages": (*suite).pages, "await": (*suite).await, "plans": (*suite).plans,
	} {
		t.Run(name, func(t *testing.T) { test(&suite{t, start(t), t.Context()}) })
	}
}

type suite struct {
	*testing.T
	api.Control
	ctx context.Context
}

func source(name string) api.VersionSpec { return api.VersionSpec{Source: "file:///models/" + name} }

func (s *suite) add(name, version string) api.Model {
	s.Helper()
	m, err := s.PutVersion(s.ctx, name, version, source(name))
	if err != nil {
		s.Fatalf("%s/%s: %v", name, version, err)
	}
	return m
}

// is demands an error of a kind.
func (s *suite) is(err error, kind api.Kind, what string) {
	s.Helper()
	var e *api.Error
	if !errors.As(err, &e) || e.Kind != kind || e.Msg == "" {
		s.Errorf("%s: %v, want an error of kind %s", what, err, kind)
	}
}

func (s *suite) versions() {
	if m := s.add("a", "1"); m.Name != "a" || m.Desired != api.Served || m.Policy.Kind != api.PolicyLatest || len(m.Versions) != 1 {
		s.Errorf("%+v", m)
	}
	m := s.add("a", "2")
	if v := m.Find("2"); len(m.Versions) != 2 || v == nil || v.Source != "file:///models/a" || m.Versions[1].Version != "2" {
		s.Errorf("%+v", m)
	}
	if again := s.add("a", "2"); len(again.Versions) != 2 {
		s.Errorf("the same once more: %+v", again)
	}
	_, err := s.PutVersion(s.ctx, "a", "2", source("elsewhere"))
	s.is(err, api.KindConflict, "another source")
	slow := source("a")
	slow.Settings.SLO = api.Span(time.Second)
	if m, err := s.PutVersion(s.ctx, "a", "2", slow); err != nil || m.Find("2").Settings.SLO != slow.Settings.SLO {
		s.Errorf("other settings: %+v, %v", m, err)
	}
	digest := source("d")
	digest.Digest = "0123456789abcdef0123456789abcdef"
	if _, err := s.PutVersion(s.ctx, "d", "1", digest); err != nil {
		s.Error(err)
	}
	if m := s.add("d", "1"); m.Find("1").Digest != digest.Digest {
		s.Errorf("without a digest: %+v", m)
	}
	digest.Digest = "fedcba9876543210fedcba9876543210"
	_, err = s.PutVersion(s.ctx, "d", "1", digest)
	s.is(err, api.KindConflict, "another digest")
	moved := api.Files{Source: "file:///elsewhere/d", Digest: digest.Digest}
	if m, err := s.SetFiles(s.ctx, "d", "1", moved); err != nil || m.Find("1").Digest != moved.Digest || m.Find("1").Source != moved.Source {
		s.Errorf("other files: %+v, %v", m, err)
	}
	if m, err := s.SetFiles(s.ctx, "d", "1", api.Files{Source: moved.Source}); err != nil || m.Find("1").Digest != "" {
		s.Errorf("whatever is there: %+v, %v", m, err)
	}
	_, err = s.SetFiles(s.ctx, "d", "9", moved)
	s.is(err, api.KindNotFound, "files of a version that is not there")
	got, err := s.Model(s.ctx, "a")
	if err != nil || len(got.Versions) != 2 {
		s.Errorf("%+v, %v", got, err)
	}
	if m, err := s.DeleteVersion(s.ctx, "a", "1"); err != nil || len(m.Versions) != 1 || m.Find("1") != nil {
		s.Errorf("%+v, %v", m, err)
	}
	_, err = s.DeleteVersion(s.ctx, "a", "1")
	s.is(err, api.KindNotFound, "a version that is gone")
	if m, err := s.DeleteVersion(s.ctx, "a", "2"); err != nil || len(m.Versions) != 0 {
		s.Errorf("the last version: %+v, %v", m, err)
	}
	for range 500 { // what became of it may be told a moment longer
		if _, err = s.Model(s.ctx, "a"); err != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.is(err, api.KindNotFound, "a model without versions")
	s.add("a", "1")
	if err := s.DeleteModel(s.ctx, "a"); err != nil {
		s.Error(err)
	}
	s.is(s.DeleteModel(s.ctx, "a"), api.KindNotFound, "a model that is gone")
	for i := range api.VersionsMax {
		s.add("many", fmt.Sprint(i))
	}
	_, err = s.PutVersion(s.ctx, "many", "1000", source("many"))
	s.is(err, api.KindConflict, "a version too many")
}

// names that need care in a path or a key.
func (s *suite) names() {
	for _, name := range []string{"a b", "äx", "per%cent", "q?x=1", "hash#", "plus+", "semi;colon", "a..b", "models"} {
		m := s.add(name, "7")
		got, err := s.Model(s.ctx, name)
		if err != nil || m.Name != name || got.Name != name {
			s.Errorf("%q: %+v, %v", name, got, err)
		}
		if err := s.DeleteModel(s.ctx, name); err != nil {
			s.Errorf("%q: %v", name, err)
		}
	}
}

func (s *suite) settings() {
	s.add("a", "1")
	slo, batch, drop := api.Span(50*time.Millisecond), 8, "head"
	m, err := s.SetSettings(s.ctx, "a", "", api.Patch{SLO: &slo, DropPolicy: &drop})
	if err != nil || m.Settings.SLO != slo || m.Settings.DropPolicy != drop || m.Settings.MaxBatch != 0 {
		s.Errorf("%+v, %v", m.Settings, err)
	}
	m, err = s.SetSettings(s.ctx, "a", "", api.Patch{MaxBatch: &batch, DropPolicy: new(string)})
	if want := (api.Settings{SLO: slo, MaxBatch: batch}); err != nil || !reflect.DeepEqual(m.Settings, want) {
		s.Errorf("%+v, %v; want %+v", m.Settings, err, want)
	}
	m, err = s.SetSettings(s.ctx, "a", "1", api.Patch{SLO: &slo})
	if err != nil || m.Find("1").Settings.SLO != slo {
		s.Errorf("of a version: %+v, %v", m, err)
	}
	_, err = s.SetSettings(s.ctx, "a", "2", api.Patch{SLO: &slo})
	s.is(err, api.KindNotFound, "settings of a version that is not there")
	_, err = s.SetSettings(s.ctx, "b", "", api.Patch{SLO: &slo})
	s.is(err, api.KindNotFound, "settings of a model that is not there")
}

func (s *suite) policy() {
	s.add("a", "1")
	s.add("a", "2")
	for _, p := range []api.Policy{{Kind: api.PolicyAll}, {Kind: api.PolicyLatest, Latest: 2}, {Kind: api.PolicyListed, Listed: []string{"1"}}} {
		if m, err := s.SetPolicy(s.ctx, "a", p); err != nil || !reflect.DeepEqual(m.Policy, p) {
			s.Errorf("%+v, %v; want %+v", m.Policy, err, p)
		}
	}
	_, err := s.SetPolicy(s.ctx, "a", api.Policy{Kind: api.PolicyListed, Listed: []string{"1", "9"}})
	s.is(err, api.KindInvalid, "a version that is not there is listed")
	_, err = s.DeleteVersion(s.ctx, "a", "1")
	s.is(err, api.KindConflict, "the only version of a list is removed")
	if _, err := s.SetPolicy(s.ctx, "a", api.Policy{Kind: api.PolicyListed, Listed: []string{"1", "2"}}); err != nil {
		s.Error(err)
	}
	if m, err := s.DeleteVersion(s.ctx, "a", "1"); err != nil || !slices.Equal(m.Policy.Listed, []string{"2"}) {
		s.Errorf("a version of a list is removed: %+v, %v", m.Policy, err)
	}
	if m, err := s.DeleteVersion(s.ctx, "a", "2"); err != nil || len(m.Versions) != 0 {
		s.Errorf("the last version, though it is listed: %+v, %v", m, err)
	}
	_, err = s.SetPolicy(s.ctx, "b", api.Policy{Kind: api.PolicyAll})
	s.is(err, api.KindNotFound, "policy of a model that is not there")
}

func (s *suite) shares() {
	s.add("a", "1")
	s.add("a", "2")
	_, err := s.RollBack(s.ctx, "a")
	s.is(err, api.KindConflict, "a roll-back before any change")
	first := []api.Share{{Version: "1", Weight: 90}, {Version: "2", Weight: 10}}
	second := []api.Share{{Version: "2", Weight: 1}}
	for range 2 { // the second time changes nothing
		if m, err := s.SetShares(s.ctx, "a", first); err != nil || !slices.Equal(m.Shares, first) || !m.Rollback || len(m.Before) > 0 {
			s.Fatalf("%+v, %v", m, err)
		}
	}
	if m, err := s.SetShares(s.ctx, "a", second); err != nil || !slices.Equal(m.Shares, second) || !slices.Equal(m.Before, first) {
		s.Fatalf("%+v, %v", m, err)
	}
	_, err = s.DeleteVersion(s.ctx, "a", "2")
	s.is(err, api.KindConflict, "a version with a share is removed")
	_, err = s.SetShares(s.ctx, "a", []api.Share{{Version: "3", Weight: 1}})
	s.is(err, api.KindInvalid, "a share of a version that is not there")
	if m, err := s.RollBack(s.ctx, "a"); err != nil || !slices.Equal(m.Shares, first) {
		s.Errorf("%+v, %v", m, err)
	}
	if m, err := s.RollBack(s.ctx, "a"); err != nil || len(m.Shares) != 0 || m.Rollback {
		s.Errorf("%+v, %v", m, err)
	}
}

func (s *suite) desired() {
	s.add("a", "1")
	if m, err := s.Unload(s.ctx, "a"); err != nil || m.Desired != api.Stopped || len(m.Versions) != 1 {
		s.Errorf("%+v, %v", m, err)
	}
	slo := api.Span(time.Second)
	order := api.LoadOrder{Settings: api.Patch{SLO: &slo}, Policy: &api.Policy{Kind: api.PolicyAll}}
	for range 2 {
		if m, err := s.Load(s.ctx, "a", order); err != nil || m.Desired != api.Served || m.Settings.SLO != slo || m.Policy.Kind != api.PolicyAll {
			s.Errorf("%+v, %v", m, err)
		}
	}
	if m, err := s.Load(s.ctx, "a", api.LoadOrder{}); err != nil || m.Settings.SLO != slo || m.Policy.Kind != api.PolicyAll {
		s.Errorf("an order that says no more changes settings: %+v, %v", m, err)
	}
	_, err := s.Load(s.ctx, "b", api.LoadOrder{})
	s.is(err, api.KindNotFound, "load of a model that is not there")
	_, err = s.Unload(s.ctx, "b")
	s.is(err, api.KindNotFound, "unload of a model that is not there")
}

func (s *suite) pages() {
	var want, got []string
	for i := range 23 {
		want = append(want, fmt.Sprintf("m%02d", i))
		s.add(want[i], "1")
	}
	for q := (api.Query{Limit: 5}); ; {
		page, err := s.List(s.ctx, q)
		if err != nil || len(page.Models) > q.Limit {
			s.Fatalf("%d models, %v", len(page.Models), err)
		}
		for _, m := range page.Models {
			got = append(got, m.Name)
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		s.Errorf("%v", got)
	}
	if page, err := s.List(s.ctx, api.Query{Limit: 100, State: api.Failed}); err != nil || len(page.Models) != 0 {
		s.Errorf("failed ones: %+v, %v", page, err)
	}
}

func (s *suite) await() {
	m := s.add("a", "1")
	changed, err := s.SetPolicy(s.ctx, "a", api.Policy{Kind: api.PolicyAll})
	if err != nil || changed.Revision == m.Revision {
		s.Fatalf("a change without another revision: %+v, %v", changed, err)
	}
	if got, err := s.Await(s.ctx, "a", m.Revision); err != nil || got.Revision == m.Revision {
		s.Errorf("%+v, %v", got, err)
	}
	ctx, cancel := context.WithTimeout(s.ctx, 30*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		for since := m.Revision; ; {
			got, err := s.Await(ctx, "a", since)
			if err != nil || got.Settings.MaxBatch == 3 {
				done <- err
				return
			}
			since = got.Revision
		}
	}()
	batch := 3
	if _, err := s.SetSettings(s.ctx, "a", "", api.Patch{MaxBatch: &batch}); err != nil {
		s.Error(err)
	}
	if err := <-done; err != nil {
		s.Errorf("a change while somebody waits: %v", err)
	}
	_, err = s.Await(s.ctx, "b", 0)
	s.is(err, api.KindNotFound, "waiting for a model that is not there")
}

func (s *suite) plans() {
	if _, err := s.Plan(s.ctx); err != nil {
		s.Errorf("no plan yet is no error: %v", err)
	}
	if h, err := s.History(s.ctx); err != nil || h.Plans == nil {
		s.Errorf("%+v, %v", h, err)
	}
	if e, err := s.Pause(s.ctx, "a test"); err != nil || !e.Paused || e.Why != "a test" {
		s.Errorf("%+v, %v", e, err)
	}
	if st, err := s.State(s.ctx); err != nil || !st.Epochs.Paused || st.Name == "" || st.Store.Away {
		s.Errorf("%+v, %v", st, err)
	}
	if e, err := s.Resume(s.ctx); err != nil || e.Paused {
		s.Errorf("%+v, %v", e, err)
	}
	_, err := s.Put(s.ctx, api.PlanSpec{SubClusters: []api.PlanPart{{Name: "a", DeviceType: "emulated", Models: []string{"nobody/1"}, GPUs: 1}}})
	var e *api.Error
	if !errors.As(err, &e) || e.Kind != api.KindInvalid && e.Kind != api.KindAway { // or no scheduler is there
		s.Errorf("a plan with a model that nobody added: %v", err)
	}
	if _, err := s.Diff(s.ctx); err != nil {
		s.Errorf("diff: %v", err)
	}
}
