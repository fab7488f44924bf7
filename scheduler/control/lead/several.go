package lead

import "github.com/symphony-serving/symphony/scheduler/control/store/schema"

// What a controller of several schedulers asks of each one's Lead, to say which gets which model
// (package spread).

// Whole reports whether the scheduler is linked and has told everything.
func (l *Lead) Whole() bool { return l.world.whole }

// Epoch is that of the last plan, or a later one that the scheduler has seen.
func (l *Lead) Epoch() uint64 { return l.stamp() }

// After says that plans of other Leads have epochs up to this one: the next one here is later.
func (l *Lead) After(epoch uint64) { l.floor = max(l.floor, epoch) }

// next is the epoch of the next plan.
func (l *Lead) next() uint64 { return max(l.stamp(), l.floor) + 1 }

// Holds reports whether a plan of people's own holds.
func (l *Lead) Holds() bool { return l.byHand }

// GPUsOf are those in service of a device type.
type GPUsOf struct {
	DeviceType string
	Count      int
	Memory     int64 // of the smallest, bytes; 0: no bound
	Largest    int64 // of the one with most; 0: no bound
}

// Types are the device types that there are GPUs of in service.
func (l *Lead) Types() (out []GPUsOf) {
	count := l.world.count()
	for _, t := range names(count) {
		out = append(out, GPUsOf{DeviceType: t, Count: count[t], Memory: l.memory(t), Largest: l.world.largest(t)})
	}
	return out
}

// Goes reports whether requests of a version go anywhere here.
func (l *Lead) Goes(key string) bool { return l.routed(key) }

// Local reports whether a backend has the version of its own folder.
func (l *Lead) Local(key string) bool { return l.localOnly(key) }

// Failed is why a version is told as failed; "": it is not, or that is of before the scheduler
// was there.
func (l *Lead) Failed(key string) string {
	if o := l.told[key]; l.world.whole && o.State == schema.Failed {
		return o.Reason
	}
	return ""
}

// Load is what a version takes: on which device type, how many GPUs, and bytes of each.
func (l *Lead) Load(key string) (deviceType string, need float64, bytes int64) {
	m := l.world.models[key]
	if m.DeviceType != "" {
		return m.DeviceType, m.Need, l.world.aboutOf(key, m.DeviceType).static
	}
	for _, t := range names(l.world.about[key]) {
		bytes = max(bytes, l.world.about[key][t].static)
	}
	return "", 0, bytes
}

// Size is what a GPU of a type must have for a version alone, in bytes; 0: not known.
func (l *Lead) Size(key, deviceType string) int64 {
	a := l.world.aboutOf(key, deviceType)
	if a.static == 0 {
		return 0
	}
	return a.static + a.dynamic
}

// Wish is a version that a model's policy wants served.
type Wish struct {
	Key         string
	DeviceTypes []string
	Bytes       int64
}

// Wishes are the versions that are to be served of a model as people want it.
func Wishes(doc schema.Model) (out []Wish) {
	k := know(doc)
	for i := range k.versions {
		if v := &k.versions[i]; v.wanted {
			out = append(out, Wish{Key: v.key, DeviceTypes: v.settings.DeviceTypes, Bytes: v.source.Bytes})
		}
	}
	return out
}
