package lead

import (
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/transport/mono"
)

// failure is what became of tries with one thing: with a version on a device type, or with
// something else that a roll-out left undone. It outlives plans, so that a model which fails is
// not tried more often because others come and go.
type failure struct {
	reason string
	tries  int            // one after the other; 0: people have changed something, and it counts as new
	next   mono.Time      // nothing of it is tried before; Never: it is being tried
	loads  map[string]int // that failed since, by GPU: a roll-out that is overtaken forgets its own
}

// failures are all of them.
type failures struct {
	versions map[string]map[string]*failure // by key, then device type
	others   map[string]*failure            // by the problem without its reason
	at       mono.Time                      // of the next try; Never: there is none
}

func newFailures() failures {
	return failures{versions: map[string]map[string]*failure{}, others: map[string]*failure{}, at: mono.Never}
}

// again puts the next try off: each time for twice as long.
func (l *Lead) again(f *failure, now mono.Time) {
	pause := l.cfg.RetryMin
	for range min(f.tries, 20) {
		pause = min(2*pause, l.cfg.RetryMax)
	}
	f.tries++
	f.loads = nil
	f.next = now.Add(pause)
	l.failed.at = min(l.failed.at, f.next)
}

// failureOf is the record of a version where the plan has it; nil: nowhere.
func (l *Lead) failureOf(key string) (*failure, string) {
	deviceType := l.homeType(key)
	if deviceType == "" {
		return nil, ""
	}
	of := l.failed.versions[key]
	if of == nil {
		of = map[string]*failure{}
		l.failed.versions[key] = of
	}
	f := of[deviceType]
	if f == nil {
		f = &failure{next: mono.Never}
		of[deviceType] = f
	}
	return f, deviceType
}

// tried is how often a version has failed, on the type where it did most, and when it is tried
// again, on any; 0: that is not known.
func (l *Lead) tried(key string) (tries int, next int64) {
	at := mono.Never
	for _, t := range names(l.failed.versions[key]) {
		f := l.failed.versions[key][t]
		tries, at = max(tries, f.tries), min(at, f.next)
	}
	if at == mono.Never {
		return tries, 0
	}
	return tries, int64(at)
}

// gaveUp notes what the roll-out has given up since.
func (l *Lead) gaveUp(now mono.Time) {
	for _, p := range l.rollout.GivenUp() {
		l.giveUpOn(now, p.Model, p.Reason)
	}
}

// notLoaded counts a load that failed: too many are a failure, however many roll-outs they were of.
func (l *Lead) notLoaded(now mono.Time, key, gpu, reason string) {
	f, _ := l.failureOf(key)
	if f == nil || f.next != mono.Never {
		return
	}
	if f.loads == nil {
		f.loads = map[string]int{}
	}
	if f.loads[gpu]++; f.loads[gpu] >= l.cfg.Limits.Tries {
		l.giveUpOn(now, key, fmt.Sprintf("%s: %s, %d times: %s", gpu, plan.Load, f.loads[gpu], reason))
		l.tell()
	}
}

// giveUpOn puts the next try of a version off where the plan has it. What has failed on one device
// type is tried on another, by another plan.
func (l *Lead) giveUpOn(now mono.Time, key, reason string) {
	f, deviceType := l.failureOf(key)
	if f == nil || f.next != mono.Never {
		return // it is known already
	}
	f.reason = reason
	l.again(f, now)
	l.dirty[key], l.world.moved[key] = true, true
	if v := l.version(key); v != nil && l.destined(v) != deviceType {
		l.want(now, causeCatalogue)
	}
}

// undone notes what else is not as the plan wants it, when the roll-out has ended.
func (l *Lead) undone(now mono.Time) {
	left := map[string]*failure{}
	for _, p := range l.rollout.Problems() {
		if p.GaveUp {
			continue
		}
		reason := p.Reason
		p.Reason = ""
		what := p.String()
		f := l.failed.others[what]
		if f == nil {
			f = &failure{next: mono.Never}
		}
		if f.reason = reason; f.next == mono.Never {
			l.again(f, now)
		}
		left[what] = f
	}
	l.failed.others = left
}

// retry has what is due tried again, by the same plan.
func (l *Lead) retry(now mono.Time) {
	l.failed.at = mono.Never
	look := func(f *failure) (due bool) {
		if f.next <= now {
			f.next, due = mono.Never, true
		}
		l.failed.at = min(l.failed.at, f.next)
		return due
	}
	for _, key := range names(l.failed.versions) {
		for _, t := range names(l.failed.versions[key]) {
			if look(l.failed.versions[key][t]) {
				l.world.moved[key] = true
			}
		}
	}
	for _, what := range names(l.failed.others) {
		look(l.failed.others[what])
	}
	if l.rollout == nil {
		return // one that begins tries all that is not held
	}
	l.phase = plan.Running // however soon it ends
	l.tell()
	_ = l.rollout.Overtake(l.plan) // it was checked
}

// forgive has a version tried at once, as if it had never failed: people have changed it, or ask
// for it again.
func (l *Lead) forgive(key string) {
	for _, t := range names(l.failed.versions[key]) {
		l.anew(l.failed.versions[key][t])
	}
}

func (l *Lead) anew(f *failure) {
	f.tries, f.loads, f.next, l.failed.at = 0, nil, mono.Past, mono.Past
}

// forgiveAll does so with everything.
func (l *Lead) forgiveAll() {
	for _, key := range names(l.failed.versions) {
		l.forgive(key)
	}
	for _, what := range names(l.failed.others) {
		l.anew(l.failed.others[what])
	}
}

// succeeded forgets failures where the plan has a version, once it is served there. What failed
// on other device types is remembered.
func (l *Lead) succeeded() {
	for _, key := range names(l.failed.versions) {
		m, routed := l.world.models[key]
		if s := l.home(key); !routed || s == nil || s.Name != subCluster(m.DeviceType, m.In) {
			continue
		}
		of := l.failed.versions[key]
		if delete(of, m.DeviceType); len(of) == 0 {
			delete(l.failed.versions, key)
		}
	}
}

// home is where the plan has a model; nil: nowhere.
func (l *Lead) home(key string) *plan.SubCluster {
	for i := range l.plan.SubClusters {
		if s := &l.plan.SubClusters[i]; slices.Contains(s.Models, key) {
			return s
		}
	}
	return nil
}

func (l *Lead) homeType(key string) string {
	if s := l.home(key); s != nil {
		return s.DeviceType
	}
	return ""
}

// held is why nothing of a model is to be tried now where the plan has it; "": it may be.
func (l *Lead) held(key string) string {
	of := l.failed.versions[key]
	if len(of) == 0 {
		return ""
	}
	if f := of[l.homeType(key)]; f != nil && f.next != mono.Never {
		return f.reason
	}
	return ""
}

// mayTypes are the device types that there are GPUs of and that a version may be served on, the
// best first: its own, in their order, or those with most GPUs.
func (v *version) mayTypes(types []string) []string {
	own := v.settings.DeviceTypes
	if len(own) == 0 {
		return types
	}
	return slices.DeleteFunc(slices.Clone(own), func(t string) bool { return !slices.Contains(types, t) })
}

// typeOf is the device type that a version is served on: the one that it is on, if it may be,
// else the best on which it has not failed. Where it has failed on all of them, it stays with the
// one whose turn is next. "" : there is none whose GPUs can hold it: it is in no plan, where it
// would take room from others.
func (l *Lead) typeOf(v *version, types []string) string {
	may := v.mayTypes(types)
	if m, routed := l.world.models[v.key]; routed && slices.Contains(may, m.DeviceType) {
		return m.DeviceType
	}
	best, next := "", mono.Never
	for _, t := range may {
		f := l.failed.versions[v.key][t]
		switch {
		case l.unfit(v.key, t) != "":
		case f == nil || f.tries == 0:
			if before := l.before[v.key]; before != t && before != "" && slices.Contains(may, before) && l.whyNotOn(v.key, before) == "" {
				return before // whoever planned it knew what had failed
			}
			return t
		case f.next == mono.Never: // it is being tried there
			best, next = t, mono.Past
		case best == "" || f.next < next || next == mono.Never:
			best, next = t, f.next
		}
	}
	return best
}

// destined is where a version is to be served: where people's own plan has it, or by typeOf.
func (l *Lead) destined(v *version) string {
	if l.byHand {
		if t := l.homeType(v.key); t != "" {
			return t
		}
	}
	return l.typeOf(v, l.open())
}

// open are the device types that plans can put models on, the largest first: of people's own
// plan those that it has GPUs of.
func (l *Lead) open() []string {
	types := l.world.types()
	if !l.byHand {
		return types
	}
	return slices.DeleteFunc(slices.Clone(types), func(t string) bool {
		return !slices.ContainsFunc(l.plan.SubClusters, func(s plan.SubCluster) bool { return s.DeviceType == t && s.GPUs > 0 })
	})
}

// unfit is why a model cannot be on any GPU of a type; "": it may be, as far as is known.
func (l *Lead) unfit(key, deviceType string) string {
	a := l.world.aboutOf(key, deviceType)
	if a.static == 0 {
		return ""
	}
	if most := l.world.largest(deviceType); most > 0 && a.static+a.dynamic > most {
		return fmt.Sprintf("it takes %.1f MiB of memory, and a GPU has at most %.1f MiB for models", float64(a.static+a.dynamic)/(1<<20), float64(most)/(1<<20))
	}
	return ""
}

// whyNotOn is why a version is not to be served on a type; "": nothing is known against it.
func (l *Lead) whyNotOn(key, deviceType string) string {
	if why := l.unfit(key, deviceType); why != "" {
		return why
	}
	if f := l.failed.versions[key][deviceType]; f != nil && f.tries > 0 {
		return f.reason
	}
	return ""
}

// whyNowhere is why a version is served on no device type; "": one is left, or there is none.
func (l *Lead) whyNowhere(v *version) string {
	may := v.mayTypes(l.open())
	if t := l.homeType(v.key); l.byHand && t != "" {
		may = []string{t}
	}
	var all []string
	for _, t := range may {
		why := l.whyNotOn(v.key, t)
		if why == "" {
			return ""
		}
		if len(may) > 1 {
			why = t + ": " + why
		}
		all = append(all, why)
	}
	return strings.Join(all, "; ")
}
