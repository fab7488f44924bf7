package controller

import (
	"slices"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/mono"
)

// model is one as the API tells it. mu is held.
func (v *view) model(name string) api.Model {
	doc := v.models[name].Value
	out := api.Model{Name: name, Revision: v.revs[name], Desired: api.Desired(doc.Desired), Versions: []api.Version{},
		Policy:   api.Policy{Kind: string(doc.Policy.Kind), Latest: doc.Policy.Latest, Listed: doc.Policy.Listed},
		Settings: settingsOut(doc.Settings), Shares: sharesOut(doc.Shares), Rollback: len(doc.Past) > 0}
	if n := len(doc.Past); n > 0 {
		out.Before = sharesOut(doc.Past[n-1].Shares)
	}
	for i := range doc.Versions {
		d := &doc.Versions[i]
		x := v.version(name, d.Version)
		x.Source, x.Digest, x.Bytes, x.Added = d.Source, d.Digest, d.Size, instant(d.Added)
		if o := v.observed[name][d.Version]; o.Files == d.Files() {
			x.LoadedDigest, x.LoadedBytes = o.Digest, o.Bytes
		}
		if d.Settings != nil {
			x.Settings = settingsOut(*d.Settings)
		}
		out.Versions = append(out.Versions, x)
	}
	if doc.Name == "" { // of backends' own folders
		out.Desired, out.Policy.Kind = api.Served, api.PolicyAll
		for version := range v.observed[name] {
			out.Versions = append(out.Versions, v.version(name, version))
		}
		slices.SortFunc(out.Versions, func(a, b api.Version) int { return cmpVersions(a.Version, b.Version) })
	}
	return out
}

// version is what became of one. mu is held.
func (v *view) version(name, version string) api.Version {
	x := api.Version{Version: version, State: api.Waiting, Reason: "for the controller"}
	if o, seen := v.observed[name][version]; seen {
		x.State, x.Reason, x.Since, x.Done, x.Total, x.SubCluster, x.GPUs = api.State(o.State), o.Reason, instant(o.Since), o.Done, o.Total, o.SubCluster, o.GPUs
		x.Tries, x.Next = o.Tries, instant(o.Next)
	}
	load := v.loads[name+"/"+version]
	x.Rate = load.Rate
	for _, n := range load.Needs {
		x.Need = max(x.Need, n.GPUs)
	}
	return x
}

// cmpVersions orders numbers as such.
func cmpVersions(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	if a < b {
		return -1
	}
	return 1
}

func instant(unix int64) time.Time {
	if unix == 0 {
		return time.Time{}
	}
	return time.Unix(0, unix).UTC()
}

func sharesOut(in []schema.Share) (out []api.Share) {
	for _, s := range in {
		out = append(out, api.Share{Version: s.Version, Weight: s.Weight})
	}
	return out
}

func settingsOut(s schema.Settings) api.Settings {
	return api.Settings{SLO: api.Span(s.SLO), MaxBatch: s.MaxBatch, DropPolicy: s.DropPolicy, DeviceTypes: s.DeviceTypes}
}

func settingsIn(s api.Settings) schema.Settings {
	return schema.Settings{SLO: mono.Dur(s.SLO), MaxBatch: s.MaxBatch, DropPolicy: s.DropPolicy, DeviceTypes: s.DeviceTypes}
}

func patched(s schema.Settings, p api.Patch) schema.Settings {
	out := settingsOut(s)
	p.Apply(&out)
	return settingsIn(out)
}

func isZero(s schema.Settings) bool {
	return s.SLO == 0 && s.MaxBatch == 0 && s.DropPolicy == "" && len(s.DeviceTypes) == 0
}

// planOut is a plan's head as the API tells it.
func planOut(h schema.Plan) api.Plan {
	return api.Plan{Epoch: h.Epoch, At: instant(h.At), By: h.By, Cause: h.Cause, State: string(h.State), Reason: h.Reason, Ended: instant(h.Ended),
		Models: h.Models, GPUs: h.GPUs, Need: h.Need, Moves: h.Moves, Steps: h.Steps, StepsDone: h.StepsDone, Scheduler: h.Scheduler}
}
