package members

import (
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// list is the models of a pool as a backend has them. Backends that are configured alike
// share one: the scheduler asks for it once and judges it once.
type list struct {
	digest catalog.Digest
	specs  []catalog.ModelSpec // in the sender's order; nil: not here yet
	order  []int               // into specs, by key
	speeds []*profile.Profile  // by key
	labels map[catalog.Digest]bool
	since  mono.Time // of the question
	asked  Conn      // who shall send it; 0: it is here
	users  int       // backends that have it, those that are not admitted yet, too

	// While backends that are admitted have it.
	holders int            // of their pools
	models  []*model       // by key
	ids     []wire.ModelID // in the sender's order; replaced when one changes
}

func (l *list) known() bool { return l.asked == 0 }

// at is the i-th model by key.
func (l *list) at(i int) *catalog.ModelSpec { return &l.specs[l.order[i]] }

// speed is the i-th model's latencies by key.
func (l *list) speed(i int) *profile.Profile { return l.speeds[i] }

// find finds a model by its key.
func (l *list) find(key string) *catalog.ModelSpec {
	if i, ok := l.search(key); ok {
		return l.at(i)
	}
	return nil
}

// search finds a model's place by its key.
func (l *list) search(key string) (int, bool) {
	return slices.BinarySearchFunc(l.order, key, func(i int, key string) int { return strings.Compare(l.specs[i].Key(), key) })
}

// owned says by key which of the models a backend has not been ordered to have.
func (l *list) owned(ordered []int) []bool {
	is := make([]bool, len(l.order))
	for _, i := range ordered {
		if i >= 0 && i < len(is) {
			is[i] = true
		}
	}
	own := make([]bool, len(l.order))
	for i, at := range l.order {
		own[i] = !is[at]
	}
	return own
}

// brought says by key which files a backend has of those that it was ordered to have.
func (l *list) brought(ordered []int, files []catalog.Files) []catalog.Files {
	is := make([]catalog.Files, len(l.order))
	for k, i := range ordered {
		if i >= 0 && i < len(is) && k < len(files) {
			is[i] = files[k]
		}
	}
	out := make([]catalog.Files, len(l.order))
	for i, at := range l.order {
		out[i] = is[at]
	}
	return out
}

// resolve finds the list's models for another backend that has it. It was checked that there are
// ids enough.
func (c *Cluster) resolve(l *list) {
	if l.holders++; l.holders > 1 {
		return
	}
	l.models = make([]*model, len(l.order))
	l.ids = make([]wire.ModelID, len(l.order))
	for i, at := range l.order {
		m, _ := c.identify(l.at(i), 0)
		m.refs++
		l.models[i], l.ids[at] = m, m.id
	}
}

// alone reports whether an item is in the pool's list, and no other pool has that list.
func (s *stock) alone(it *item) bool { return it.at >= 0 && s.list.holders == 1 }

// renamed gives the list's reference to the model that has taken the place of the one it had.
func (s *stock) renamed(it *item, m *model) {
	if old := s.list.models[it.at]; old != m {
		old.refs--
		m.refs++
		s.list.models[it.at] = m
		s.list.ids = slices.Clone(s.list.ids) // a Bound on its way has those before
		s.list.ids[s.list.order[it.at]] = m.id
	}
}

// unresolve lets go of them when the last one has left.
func (c *Cluster) unresolve(l *list) {
	if l.holders--; l.holders > 0 {
		return
	}
	for _, m := range l.models {
		m.refs--
		c.stir(m)
	}
	l.models, l.ids = nil, nil
}

// fill gives the list its models, or says what is wrong with them.
func (l *list) fill(models []catalog.ModelSpec) error {
	order := make([]int, len(models))
	speeds := make([]*profile.Profile, len(models))
	labels := map[catalog.Digest]bool{}
	for i := range models {
		m := &models[i]
		if err := CheckModel(m); err != nil {
			return err
		}
		speed, err := profile.FromDoc(m.Profile, m.MaxBatch)
		if err != nil {
			return fmt.Errorf("model %s: %w", m.Key(), err)
		}
		m.MaxBatch = speed.MaxBatch() // no larger than what was measured
		order[i], speeds[i] = i, speed
		if m.LabelsID != "" {
			labels[m.LabelsID] = true
		}
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(models[a].Key(), models[b].Key()) })
	for i := 1; i < len(order); i++ {
		if key := models[order[i]].Key(); key == models[order[i-1]].Key() {
			return fmt.Errorf("model %s is there twice", key)
		}
	}
	l.specs, l.order, l.labels, l.asked = models, order, labels, 0
	l.speeds = make([]*profile.Profile, len(models))
	for i, at := range order {
		l.speeds[i] = speeds[at]
	}
	return nil
}

// sloMax is the longest SLO.
const sloMax = 3600 * mono.Second

// CheckModel says what is wrong with a model by itself, but for its profile.
func CheckModel(m *catalog.ModelSpec) error {
	if m.Name == "" || m.Version == "" {
		return fmt.Errorf("model %q version %q: both must be given", m.Name, m.Version)
	}
	if strings.Contains(m.Version, "/") {
		return fmt.Errorf("model %s version %q: a version has no /", m.Name, m.Version)
	}
	if m.SLO <= 0 || m.SLO > sloMax {
		return fmt.Errorf("model %s: SLO %v, must be above 0 and at most an hour", m.Key(), m.SLO)
	}
	for _, side := range [][]catalog.TensorSpec{m.Inputs, m.Outputs} {
		for i := range side {
			if side[i].ByteSize() < 0 {
				return fmt.Errorf("model %s: tensor %q is of type %s: the elements of every tensor must have a fixed size", m.Key(), side[i].Name, side[i].Type)
			}
		}
	}
	if m.MaxBatch < 1 || m.MaxBatch > profile.BatchMax {
		return fmt.Errorf("model %s: max_batch %d, must be 1 to %d", m.Key(), m.MaxBatch, profile.BatchMax)
	}
	if _, err := batching.ParsePolicy(m.DropPolicy); err != nil {
		return fmt.Errorf("model %s: %w", m.Key(), err)
	}
	return nil
}

// listOf finds a list, or begins one that conn is asked for.
func (c *Cluster) listOf(now mono.Time, conn Conn, d catalog.Digest, out *Effects) *list {
	l := c.known[d]
	if l == nil {
		l = &list{digest: d, asked: conn, since: now}
		c.known[d] = l
		out.add(Effect{Kind: Want, Conn: conn, Digest: d})
	}
	l.users++
	return l
}

// release gives a list up that a backend has no more. One that nobody has sent yet is
// asked of the next that waits for it.
func (c *Cluster) release(now mono.Time, b *backend, l *list, out *Effects) {
	if l.users--; l.users > 0 {
		if l.asked == b.conn {
			c.askNext(now, l, b, out)
		}
		return
	}
	delete(c.known, l.digest)
}

func (c *Cluster) askNext(now mono.Time, l *list, but *backend, out *Effects) {
	for _, b := range c.backends {
		if b != but && slices.Contains(b.lists, l) {
			l.asked, l.since = b.conn, now
			out.add(Effect{Kind: Want, Conn: b.conn, Digest: l.digest})
			return
		}
	}
}

// Models takes a list from a backend that was asked for it; err says what the server
// found wrong with the document.
func (c *Cluster) Models(now mono.Time, conn Conn, d catalog.Digest, models []catalog.ModelSpec, err error, out *Effects) {
	b := c.backend(conn)
	if b == nil {
		return
	}
	c.begin(now, out)
	l := c.known[d]
	switch {
	case l == nil || l.asked != conn:
		err = fmt.Errorf("a model list came that was not asked for")
	case err == nil:
		err = l.fill(models)
	}
	if err != nil {
		out.refuse(conn, err)
		c.removeBackend(b)
	}
	c.judge()
}

// answerTime is how long a backend may take to send a list.
const answerTime = 5 * mono.Second

// dismissLate lets go of those who do not send the list that they were asked for: others that
// have it wait for it.
func (c *Cluster) dismissLate() {
	for i := 0; i < len(c.backends); i++ {
		b := c.backends[i]
		late := slices.ContainsFunc(b.lists, func(l *list) bool { return l.asked == b.conn && c.now.Sub(l.since) > answerTime })
		if b.admitted || !late {
			continue
		}
		c.out.refuse(b.conn, fmt.Errorf("the model list that it was asked for did not come within %v", answerTime))
		c.removeBackend(b)
		i = -1
	}
}
