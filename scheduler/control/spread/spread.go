package spread

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Config of a Spread. Zero values mean the defaults in brackets.
type Config struct {
	MovesMax float64  // share of all models' bytes that an Interval may move for balance; one model at least [0.05]
	Interval mono.Dur // [5 minutes]
	Wait     mono.Dur // how long after a start new models wait for schedulers that have not told all [10 s]
	Apart    float64  // difference of need per GPU from which on models move [0.25]
	Near     float64  // down to which they do [0.1]
	Hold     mono.Dur // how long needs must have been apart [20 s]
	Stranded mono.Dur // how long a scheduler may have no GPU for a model, or be away in the middle of a move [2 minutes]
	MoveMax  mono.Dur // a move's time; that of people's own: see stuck [10 minutes]
	Linger   mono.Dur // how long both serve a model that has arrived: frontends hear of it, and of its shares [2 s]
}

func (c *Config) fill() {
	for _, f := range []struct {
		v   *float64
		def float64
	}{{&c.MovesMax, 0.05}, {&c.Apart, 0.25}, {&c.Near, 0.1}} {
		if *f.v <= 0 {
			*f.v = f.def
		}
	}
	for _, d := range []struct {
		v   *mono.Dur
		def mono.Dur
	}{{&c.Interval, 300 * mono.Second}, {&c.Wait, 10 * mono.Second}, {&c.Hold, 20 * mono.Second}, {&c.Stranded, 120 * mono.Second}, {&c.MoveMax, 600 * mono.Second}, {&c.Linger, 2 * mono.Second}} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
}

// Nowhere is the number of no scheduler.
const Nowhere = -1

// model is one that is wanted.
type model struct {
	name     string
	versions []Version // that are wanted; none: it is stopped
	at, to   int       // schedulers whose Leads have it; to: where it moves
	began    mono.Time // its move
	lost     mono.Time // since when to is away; Never
	there    mono.Time // since when to serves it; Never
	stranded mono.Time // since when at has no GPU for it; Never
	rest     mono.Time // before which balance leaves it alone
	again    mono.Time // before which no other move of it begins: one has failed
	assigned bool      // its move is people's, or may be: it was under way at the start
	unsure   bool      // it may move the other way round: see sure
	failing  mono.Time // since when it has failed at to; Never
	avoided  []avoided
	waits    string // why it is nowhere, as was told
}

// avoided is a scheduler where a model could not be served.
type avoided struct {
	scheduler int
	until     mono.Time
}

// avoid has a scheduler not chosen for a while.
func (m *model) avoid(i int, until mono.Time) {
	m.avoided = append(slices.DeleteFunc(m.avoided, func(a avoided) bool { return a.scheduler == i }), avoided{i, until})
}

func (m *model) avoids(i int, now mono.Time) bool {
	return slices.ContainsFunc(m.avoided, func(a avoided) bool { return a.scheduler == i && now < a.until })
}

// Spread is the state. Not safe for concurrent use.
type Spread struct {
	cfg        Config
	schedulers []string
	begun      mono.Time
	homes      map[string][]int  // by the last plans, the oldest first, of models that are not wanted yet
	models     map[string]*model // that are wanted, by name
	homeless   map[string]bool   // of them
	moving     map[string]bool   // of them
	stirred    bool              // something has changed that homeless ones may have waited for
	waited     bool              // all have told what they have, or Config.Wait has passed
	paused     bool

	looked mono.Time          // when balance was last looked at
	apart  map[side]mono.Time // since when
	window mono.Time          // in which moved was: the Interval's begin
	moved  int64              // bytes, for balance
	loads  loads
	gpus   [][]GPUs // of schedulers that have told, when they were last looked at: to ask takes long
}

// New makes one over the schedulers, which are named for people.
func New(now mono.Time, cfg Config, schedulers []string) *Spread {
	cfg.fill()
	return &Spread{cfg: cfg, schedulers: schedulers, begun: now, window: now, looked: now, homes: map[string][]int{}, models: map[string]*model{}, homeless: map[string]bool{},
		moving: map[string]bool{}, apart: map[side]mono.Time{}, loads: newLoads(len(schedulers)), gpus: make([][]GPUs, len(schedulers))}
}

// Restore says that a scheduler's last plan has the model: of the oldest plan first.
func (s *Spread) Restore(name string, i int) {
	if !slices.Contains(s.homes[name], i) {
		s.homes[name] = append(s.homes[name], i)
	}
}

// Want takes what people want of a model. Whoever has it is given it again.
func (s *Spread) Want(now mono.Time, name string, versions []Version, out *Effects) {
	m := s.models[name]
	if m == nil {
		m = &model{name: name, at: Nowhere, to: Nowhere, lost: mono.Never, there: mono.Never, stranded: mono.Never}
		s.models[name] = m
		home := s.homes[name]
		delete(s.homes, name)
		switch {
		case len(s.schedulers) == 1:
			m.at = 0
		case len(home) > 1: // it was on its way from one of them to the other
			m.at = home[len(home)-2]
			s.begin(now, m, home[len(home)-1])
			m.unsure, m.assigned = true, true
		case len(home) == 1:
			m.at = home[0]
		default:
			s.homeless[name] = true
		}
	}
	m.versions, m.waits, m.avoided, s.stirred = versions, "", nil, true
	for _, i := range []int{m.at, m.to} {
		if i != Nowhere {
			out.Gives = append(out.Gives, Grant{i, name})
		}
	}
}

// Unwant: people want nothing of it any more.
func (s *Spread) Unwant(name string, out *Effects) {
	m := s.models[name]
	delete(s.homes, name)
	if m == nil {
		return
	}
	s.take(m.at, m, out)
	s.take(m.to, m, out)
	delete(s.models, name)
	delete(s.homeless, name)
	delete(s.moving, name)
}

// Stir has models that wait looked at again: GPUs have come or gone, or a scheduler has.
func (s *Spread) Stir() { s.stirred = true }

// Pause has no move begin, or lets them go on. What is under way is finished.
func (s *Spread) Pause(paused bool) { s.paused = paused }

// Claim says which versions a scheduler serves that was not heard before: of models that nobody else
// serves they make it the home.
func (s *Spread) Claim(i int, keys []string, w World, out *Effects) {
	for _, key := range keys {
		name := key[:max(0, strings.LastIndexByte(key, '/'))]
		m := s.models[name]
		if m == nil || m.at == i || m.to == i || !slices.ContainsFunc(m.versions, func(v Version) bool { return v.Key == key }) {
			continue
		}
		if s.serves(m.at, m, w) || s.serves(m.to, m, w) {
			continue // its Lead, which was not given it, has it removed
		}
		s.give(i, m, out)
		s.take(m.at, m, out)
		s.take(m.to, m, out)
		m.at, m.to = i, Nowhere
		delete(s.homeless, name)
		delete(s.moving, name)
	}
}

// serves reports whether a scheduler is known to serve a version that is wanted.
func (s *Spread) serves(i int, m *model, w World) bool {
	return i != Nowhere && w.Told(i) && slices.ContainsFunc(m.versions, func(v Version) bool { return w.Routed(i, v.Key) })
}

// Assign is where people want a model to be. It moves there like any other.
func (s *Spread) Assign(now mono.Time, name string, i int, w World, out *Effects) {
	m := s.models[name]
	if m == nil || m.to == Nowhere && m.at == i {
		return
	}
	switch {
	case m.to == i:
		m.assigned, m.unsure = true, false
		return
	case m.at == Nowhere:
		s.settle(m, i, out)
		return
	case m.to != Nowhere:
		s.collapse(m, w, out)
	}
	if m.at != i {
		s.move(now, m, i, "people's plan has it there", out)
		m.assigned = true
	}
}

// Home is where a model is, and where it moves; Nowhere.
func (s *Spread) Home(name string) (at, to int) {
	if m := s.models[name]; m != nil {
		return m.at, m.to
	}
	return Nowhere, Nowhere
}

// Step does what is due.
func (s *Spread) Step(now mono.Time, w World, out *Effects) {
	if len(s.schedulers) == 1 {
		return
	}
	s.finish(now, w, out)
	s.place(now, w, out)
	if now >= s.looked.Add(lookEvery) {
		s.looked = now
		s.survey(w)
		s.rescue(now, w, out)
		s.balance(now, w, out)
	}
}

// lookEvery is between two looks at all models.
const lookEvery = 5 * mono.Second

// Wake is when Step is due though nothing happens.
func (s *Spread) Wake() mono.Time {
	if len(s.schedulers) == 1 || len(s.models) == 0 {
		return mono.Never
	}
	at := s.looked.Add(lookEvery)
	if len(s.homeless) > 0 && !s.waited {
		at = min(at, s.begun.Add(s.cfg.Wait))
	}
	for _, name := range names(s.moving) {
		if there := s.models[name].there; there != mono.Never {
			at = min(at, there.Add(s.cfg.Linger))
		}
	}
	return at
}

// give has a Lead know of a model. One that is to lose it in the same go, of a move that is turned
// round, keeps it.
func (s *Spread) give(i int, m *model, out *Effects) {
	out.Takes = slices.DeleteFunc(out.Takes, func(t Grant) bool { return t == Grant{i, m.name} })
	out.Gives = append(out.Gives, Grant{i, m.name})
	m.waits = ""
}

// take has it forget the model; nothing where i is Nowhere.
func (s *Spread) take(i int, m *model, out *Effects) {
	if i != Nowhere {
		out.Takes = append(out.Takes, Grant{i, m.name})
	}
}

// settle is a model's first home.
func (s *Spread) settle(m *model, i int, out *Effects) {
	m.at = i
	delete(s.homeless, m.name)
	s.give(i, m, out)
}

// move begins one.
func (s *Spread) move(now mono.Time, m *model, to int, why string, out *Effects) {
	s.begin(now, m, to)
	s.give(to, m, out)
	out.Notes = append(out.Notes, fmt.Sprintf("model %s moves from scheduler %s to %s: %s", m.name, s.schedulers[m.at], s.schedulers[to], why))
}

func (s *Spread) begin(now mono.Time, m *model, to int) {
	m.to, m.began, m.lost, m.there, m.stranded = to, now, mono.Never, mono.Never, mono.Never
	m.assigned, m.unsure, m.failing = false, false, mono.Never
	s.moving[m.name] = true
}

// collapse ends a move where it began; or where it goes to, if only that one serves it.
func (s *Spread) collapse(m *model, w World, out *Effects) {
	if !s.serves(m.at, m, w) && s.serves(m.to, m, w) {
		m.at, m.to = m.to, m.at
	}
	s.take(m.to, m, out)
	m.to = Nowhere
	delete(s.moving, m.name)
}

// names are the keys of a map in their order.
func names[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
