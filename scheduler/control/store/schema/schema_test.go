package schema

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Whatever a name is, its part of a key holds no slash, gives the name back, and is no other
// name's; and what Escape never makes is no key.
func TestEscape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		key := Escape(a)
		for i := range len(key) {
			if !plain(key[i]) && key[i] != '%' {
				t.Fatalf("%q became %q", a, key)
			}
		}
		if back, err := Unescape(key); a != "" && (err != nil || back != a) {
			t.Fatalf("%q became %q, which is %q, %v", a, key, back, err)
		}
		if a != b && Escape(b) == key {
			t.Fatalf("%q and %q are both %q", a, b, key)
		}
	})
	for _, bad := range []string{"", "%", "%2", "%zz", "a/b", "%2f", "%41", "ü", "a b"} {
		if name, err := Unescape(bad); err == nil {
			t.Errorf("%q is the key of %q", bad, name)
		}
	}
	if ID("a/b", "c") != "a%2Fb/c" || EpochID(7) >= EpochID(10) {
		t.Error("ids")
	}
}

// Every kind's document survives its way as JSON, under the key that it says.
func TestDocumentsSurvive(t *testing.T) {
	survives(t, Models(), whole())
	survives(t, Observed(), Observation{Model: "m", Version: "1", State: Serving, GPUs: 3})
	survives(t, Backends(), Backend{Name: "b", Devices: []Device{{Name: "b/cpu/0", DeviceType: "cpu", Memory: 1}}})
	survives(t, Loads(), Load{Model: "m", Version: "1", Rate: 1.5, Needs: []Need{{"cpu", 0.5}}})
	survives(t, Profiles(), Measured{Model: "m", Version: "1", DeviceType: "cpu", Profile: catalog.Profile{Alpha: 1, Table: []mono.Dur{1, 2}}})
	survives(t, Plans(), Plan{Epoch: 3, State: InForce})
	survives(t, Parts(), SubCluster{Epoch: 3, Name: "s/1", DeviceType: "cpu", Models: []string{"m/1"}})
	survives(t, Controls(), Control{Name: Epochs, Off: true})
}

func whole() Model {
	return Model{Name: "m/ü", Desired: Served, Policy: Policy{Kind: PolicyListed, Listed: []string{"2"}}, Settings: Settings{SLO: mono.Second},
		Versions: []ModelVersion{{Version: "1", Source: "file:///1"}, {Version: "2", Source: "file:///2", Settings: &Settings{MaxBatch: 4}}},
		Shares:   []Share{{"1", 1}, {"2", 9}}}
}

func survives[T Document](t *testing.T, k Kind, d T) {
	t.Helper()
	p, err := PairOf(k, d)
	if err != nil {
		t.Error(err)
		return
	}
	kind, ok := KindOf(p.Key)
	if !ok || kind != k {
		t.Errorf("%s is of %+v", p.Key, kind)
	}
	id := strings.TrimPrefix(p.Key, k.Name+"/")
	if back, err := Decode[T](k, id, p.Value); err != nil || !reflect.DeepEqual(back, d) {
		t.Errorf("%s became %+v, %v", p.Value, back, err)
	}
	if _, err := Decode[T](k, id+"x", p.Value); err == nil {
		t.Errorf("%s is taken under another key", p.Value)
	}
	k.BytesMax = len(p.Value) - 1
	var large *TooLargeError
	if _, err := PairOf(k, d); !errors.As(err, &large) {
		t.Errorf("%v", err)
	}
	if _, err := Decode[T](k, id, p.Value); !errors.As(err, &large) {
		t.Errorf("%v", err)
	}
}

// What no reader could use is refused.
func TestChecksRefuse(t *testing.T) {
	long := strings.Repeat("x", NameMax+1)
	for what, d := range map[string]Document{
		"no state":                Observation{Model: "m", Version: "1"},
		"negative bytes":          Observation{Model: "m", Version: "1", State: Idle, Done: -1},
		"no version":              Observation{Model: "m", State: Idle},
		"a long name":             Observation{Model: long, Version: "1", State: Idle},
		"a long reason":           Observation{Model: "m", Version: "1", State: Failed, Reason: strings.Repeat("x", TextMax+1)},
		"a name of bad text":      Control{Name: "\xff"},
		"a nameless backend":      Backend{},
		"a nameless device":       Backend{Name: "b", Devices: []Device{{DeviceType: "cpu"}}},
		"too many devices":        Backend{Name: "b", Devices: make([]Device, DevicesMax+1)},
		"a rate that is none":     Load{Model: "m", Version: "1", Rate: math.NaN()},
		"a negative rate":         Load{Model: "m", Version: "1", Rate: -1},
		"an infinite need":        Load{Model: "m", Version: "1", Needs: []Need{{"cpu", math.Inf(1)}}},
		"a profile without time":  Measured{Model: "m", Version: "1", DeviceType: "c", Profile: catalog.Profile{Table: []mono.Dur{1, 0}}},
		"negative memory":         Measured{Model: "m", Version: "1", DeviceType: "c", Static: -1},
		"a plan without a state":  Plan{},
		"too many sub-clusters":   Plan{State: InForce, SubClusters: SubClustersMax + 1},
		"a part without a name":   SubCluster{DeviceType: "cpu"},
		"a part with no model":    SubCluster{Name: "s", DeviceType: "cpu", Models: []string{""}},
		"a part too large":        SubCluster{Name: "s", DeviceType: "cpu", Models: make([]string, SubClusterMax+1)},
		"a policy of an unknown":  Model{Name: "m", Desired: Served, Policy: Policy{Kind: PolicyListed, Listed: []string{"3"}}},
		"a policy of none":        Model{Name: "m", Desired: Served},
		"an SLO of years":         Model{Name: "m", Desired: Served, Policy: Policy{Kind: PolicyAll}, Settings: Settings{SLO: 1 << 60}},
		"a version's bad setting": Model{Name: "m", Desired: Served, Policy: Policy{Kind: PolicyAll}, Versions: []ModelVersion{{Version: "1", Source: "s", Settings: &Settings{MaxBatch: -1}}}},
	} {
		if err := d.Check(); err == nil || len(err.Error()) > 1000 {
			t.Errorf("%s: %.1000v", what, err)
		}
	}
	if err := (Leader{}).Check(); err == nil {
		t.Error("a nameless leader")
	}
}

// Shares are changed and rolled back, one step after the other, as far as the history goes.
func TestSharesRollBack(t *testing.T) {
	m := whole()
	for i := range PastMax + 3 {
		m.SetShares([]Share{{"1", i + 1}}, int64(i))
	}
	if err := m.Check(); err != nil || len(m.Past) != PastMax {
		t.Fatalf("%d past, %v", len(m.Past), err)
	}
	for i := PastMax + 2; i >= 3; i-- {
		if !m.RollBack() || m.Shares[0].Weight != i {
			t.Fatalf("rolled back to %+v, want %d", m.Shares, i)
		}
	}
	if m.RollBack() {
		t.Error("rolled back to nothing")
	}
}

// Every version before this one has its migration, and one only.
func TestMigrationsAreWhole(t *testing.T) {
	all := Migrations()
	if len(all) != Version {
		t.Fatalf("%d migrations lead to version %d", len(all), Version)
	}
	for v, m := range all {
		if m.From != v || m.What == "" {
			t.Errorf("%+v", m)
		}
	}
	if _, err := Migrate(all, nil, Version, Version+1); err == nil {
		t.Error("migrated beyond this version")
	}
}

// Whatever the draft held, what comes out are documents of this version; the order in which
// it is read makes no difference, and its bytes stay as they are.
func TestDraftBecomesDocuments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in []Pair
		seen := map[string]bool{}
		for range rapid.IntRange(0, 12).Draw(t, "versions") {
			d := draftModel{Name: rapid.SampledFrom([]string{"a", "b/c", "ü"}).Draw(t, "name"), Version: rapid.SampledFrom([]string{"1", "2", "10", "x/y"}).Draw(t, "version"),
				URL: "file:///m", Created: rapid.Int64Range(0, 3).Draw(t, "created"), SLOMillis: rapid.SampledFrom([]float64{0, 20, 50.5}).Draw(t, "slo"),
				Batch: rapid.IntRange(0, 64).Draw(t, "batch"), Stopped: rapid.Bool().Draw(t, "stopped"), Share: rapid.IntRange(0, 100).Draw(t, "share")}
			text, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			if key := "models/" + ID(d.Name, d.Version); !seen[key] {
				seen[key] = true
				in = append(in, Pair{key, text})
			}
		}
		before := len(in)
		turned := append([]Pair(nil), in...)
		for i, j := 0, len(turned)-1; i < j; i, j = i+1, j-1 {
			turned[i], turned[j] = turned[j], turned[i]
		}
		out, err := Migrate(Migrations(), in, 0, Version)
		again, err2 := Migrate(Migrations(), turned, 0, Version)
		if err != nil || err2 != nil || !reflect.DeepEqual(out, again) {
			t.Fatalf("%v, %v:\n%s\n%s", err, err2, out, again)
		}
		versions := 0
		for _, p := range out {
			m, err := Decode[Model](Models(), strings.TrimPrefix(p.Key, "models/"), p.Value)
			if err != nil {
				t.Fatal(err)
			}
			versions += len(m.Versions)
		}
		if versions != before {
			t.Fatalf("%d versions became %d", before, versions)
		}
	})
	for _, bad := range []Pair{{"models/a/1", []byte("{")}, {"models/a/1", []byte(`{"name":"b","version":"1","url":"u"}`)}, {"profiles/a/1", []byte("{}")},
		{"models/a/1", []byte(`{"name":"a","version":"1"}`)}, {"profiles/a/1/%", []byte("{}")}, {"profiles/a/1/c", []byte(`{"alpha_ms":-1}`)}} {
		if _, err := Migrate(Migrations(), []Pair{bad}, 0, Version); err == nil || !strings.Contains(err.Error(), "version 0 to 1") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
