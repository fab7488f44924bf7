package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Version 0 was the draft of this schema: a document for each version of a model
// ("models/NAME/VERSION") with spans in milliseconds, "profiles/NAME/VERSION/TYPE" of a
// line only, and no desired state beyond "stopped", no policy, no history of shares.

type draftModel struct {
	Name       string  `json:"name"`
	Version    string  `json:"version"`
	URL        string  `json:"url"`
	Digest     string  `json:"digest"`
	Bytes      int64   `json:"bytes"`
	Created    int64   `json:"created"` // Unix seconds
	SLOMillis  float64 `json:"slo_ms"`
	Batch      int     `json:"batch"`
	DropPolicy string  `json:"drop_policy"`
	Stopped    bool    `json:"stopped"`
	Share      int     `json:"share"`
}

type draftProfile struct {
	AlphaMillis float64 `json:"alpha_ms"`
	BetaMillis  float64 `json:"beta_ms"`
	Static      int64   `json:"static"`
	Dynamic     int64   `json:"dynamic"`
}

// fromDraft is the migration of version 0.
func fromDraft(in []Pair) (out []Pair, err error) {
	var models [][]draftModel // of one name each
	for _, p := range in {
		kind, id, _ := strings.Cut(p.Key, "/")
		switch kind {
		case "models":
			var d draftModel
			if err := json.Unmarshal(p.Value, &d); err != nil {
				return nil, fmt.Errorf("%s: %w", p.Key, err)
			}
			if id != ID(d.Name, d.Version) {
				return nil, fmt.Errorf("%s is of model %q, version %q", p.Key, d.Name, d.Version)
			}
			if n := len(models); n > 0 && models[n-1][0].Name == d.Name {
				models[n-1] = append(models[n-1], d)
			} else {
				models = append(models, []draftModel{d})
			}
		case "profiles":
			pair, err := draftMeasured(p.Key, id, p.Value)
			if err != nil {
				return nil, err
			}
			out = append(out, pair)
		default: // what the draft knew beside them was measured anew after every start
		}
	}
	for _, versions := range models {
		pair, err := PairOf(Models(), draftJoined(versions))
		if err != nil {
			return nil, err
		}
		out = append(out, pair)
	}
	return out, nil
}

// draftJoined makes one model of its versions. The newest version's settings become the
// model's; others keep what differs.
func draftJoined(versions []draftModel) Model {
	slices.SortStableFunc(versions, func(a, b draftModel) int { return cmp.Compare(a.Created, b.Created) })
	newest := versions[len(versions)-1]
	m := Model{Name: newest.Name, Desired: Stopped, Policy: Policy{Kind: PolicyListed}, Settings: newest.settings()}
	for _, d := range versions {
		v := ModelVersion{Version: d.Version, Source: d.URL, Digest: d.Digest, Size: d.Bytes, Added: d.Created * int64(mono.Second)}
		if own := d.settings().less(m.Settings); own != (draftSettings{}) {
			v.Settings = own.full()
		}
		m.Versions = append(m.Versions, v)
		if !d.Stopped { // the draft served what was not stopped: exactly that is listed
			m.Desired = Served
			m.Policy.Listed = append(m.Policy.Listed, d.Version)
			if d.Share > 0 {
				m.Shares = append(m.Shares, Share{Version: d.Version, Weight: d.Share})
			}
		}
	}
	if m.Desired == Stopped {
		m.Policy = Policy{Kind: PolicyLatest}
	}
	return m
}

func (d draftModel) settings() Settings {
	return Settings{SLO: mono.FromMillis(d.SLOMillis), MaxBatch: d.Batch, DropPolicy: d.DropPolicy}
}

// draftSettings are the Settings that the draft had: unlike those they can be compared.
type draftSettings struct {
	slo   mono.Dur
	batch int
	drop  string
}

// less leaves what differs.
func (s Settings) less(of Settings) draftSettings {
	var d draftSettings
	if s.SLO != of.SLO {
		d.slo = s.SLO
	}
	if s.MaxBatch != of.MaxBatch {
		d.batch = s.MaxBatch
	}
	if s.DropPolicy != of.DropPolicy {
		d.drop = s.DropPolicy
	}
	return d
}

func (d draftSettings) full() *Settings {
	return &Settings{SLO: d.slo, MaxBatch: d.batch, DropPolicy: d.drop}
}

func draftMeasured(key, id string, value []byte) (Pair, error) {
	var names [3]string
	parts := strings.Split(id, "/")
	if len(parts) != len(names) {
		return Pair{}, fmt.Errorf("%s: want profiles/NAME/VERSION/TYPE", key)
	}
	for i, p := range parts {
		name, err := Unescape(p)
		if err != nil {
			return Pair{}, err
		}
		names[i] = name
	}
	var d draftProfile
	if err := json.Unmarshal(value, &d); err != nil {
		return Pair{}, fmt.Errorf("%s: %w", key, err)
	}
	return PairOf(Profiles(), Measured{Model: names[0], Version: names[1], DeviceType: names[2], Static: d.Static, Dynamic: d.Dynamic,
		Profile: catalog.Profile{Alpha: mono.FromMillis(d.AlphaMillis), Beta: mono.FromMillis(d.BetaMillis)}})
}
