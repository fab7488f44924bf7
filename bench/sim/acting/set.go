package acting

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/control/scaling"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Set is replicas as a StatefulSet keeps them: gpu-0, gpu-1, ... Those that are ordered serve a lead
// time later; the highest go first, at once.
type Set struct {
	Unit    int      // GPUs of each
	Lead    mono.Dur // from an order until the replica serves
	Scatter float64  // it takes up to so much more, as a share of Lead
	Drain   mono.Dur // that a replica takes to end what it has
	Rand    *rand.Rand

	replicas []replica
	names    []string // by ordinal
}

// replica is one.
type replica struct {
	ready   mono.Time // it serves from then on
	dead    bool      // it is there for the scaler, and serves nothing
	leaving mono.Time // since when it gets nothing new; Never: it does
}

// Start adds replicas that serve at once.
func (s *Set) Start(n int) {
	for range n {
		s.replicas = append(s.replicas, replica{ready: mono.Past, leaving: mono.Never})
	}
}

// Size is how many there are for the scaler, whether they serve or not.
func (s *Set) Size() int { return len(s.replicas) }

// Serves reports whether a replica takes requests.
func (s *Set) Serves(now mono.Time, ordinal int) bool {
	if ordinal >= len(s.replicas) {
		return false
	}
	p := &s.replicas[ordinal]
	return !p.dead && p.ready <= now && p.leaving == mono.Never
}

// GPUs are those of replicas that do.
func (s *Set) GPUs(now mono.Time) (n int) {
	for i := range s.replicas {
		if s.Serves(now, i) {
			n += s.Unit
		}
	}
	return n
}

// Seen are the replicas as the scheduler sees them.
func (s *Set) Seen(now mono.Time) (out []scaling.Replica) {
	for i := range s.replicas {
		p := &s.replicas[i]
		if p.dead || p.ready > now {
			continue
		}
		r := scaling.Replica{Name: s.name(i), There: s.Unit}
		if s.Serves(now, i) {
			r.Serving, r.Left = s.Unit, s.Unit
		} else if s.drains(p, now) {
			r.Left = s.Unit
		}
		out = append(out, r)
	}
	return out
}

func (s *Set) name(ordinal int) string {
	for i := len(s.names); i <= ordinal; i++ {
		s.names = append(s.names, fmt.Sprintf("gpu-%d", i))
	}
	return s.names[ordinal]
}

func (s *Set) drains(p *replica, now mono.Time) bool {
	return p.leaving != mono.Never && now.Sub(p.leaving) < s.Drain
}

// Kill ends what a replica serves, or has it serve again; the scaler does not see it.
func (s *Set) Kill(ordinal int, dead bool) {
	if ordinal < len(s.replicas) {
		s.replicas[ordinal].dead = dead
	}
}

// Leave has these get nothing new, and no others.
func (s *Set) Leave(now mono.Time, names []string) {
	for i := range s.replicas {
		p := &s.replicas[i]
		switch leaves := slices.Contains(names, s.name(i)); {
		case !leaves:
			p.leaving = mono.Never
		case p.leaving == mono.Never:
			p.leaving = now
		}
	}
}

// Scale is the scaler. It tells how many it removed with something on them.
func (s *Set) Scale(now mono.Time, size int) (cut int) {
	for i := size; i < len(s.replicas); i++ {
		if p := &s.replicas[i]; s.Serves(now, i) || !p.dead && p.ready <= now && s.drains(p, now) {
			cut++
		}
	}
	s.replicas = s.replicas[:min(len(s.replicas), size)]
	for len(s.replicas) < size {
		lead := float64(s.Lead) * (1 + float64(s.Scatter*s.Rand.Float64()))
		s.replicas = append(s.replicas, replica{ready: now.Add(mono.Dur(lead)), leaving: mono.Never})
	}
	return cut
}
