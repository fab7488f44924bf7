package workload

// Tape keeps the gaps that were drawn, in means, for further runs of the same
// seed and processes at other rates: a search simulates one seed at many rates,
// and a Gamma process with bursts costs as much to draw as the scheduler does to
// serve. What comes out is what NewMix draws, to the bit. The zero Tape is
// empty.
//
// It grows with the longest run, 8 bytes an arrival, and belongs to one run at a
// time.
type Tape struct {
	tracks map[track]*recorded
}

// track is what decides the gaps of a stream.
type track struct {
	seed    uint64
	model   int32
	process Process
	shape   float64
}

// recorded is a stream's draw with what came out of it: the span to the first
// arrival, then the gaps.
type recorded struct {
	draw draw
	gaps []float64
}

// NewMix is the package's NewMix.
func (t *Tape) NewMix(streams []Stream, seed uint64) (*Mix, error) { return mixOf(streams, seed, t) }

// of is the track of a stream. One that several models share has none: the
// draws of the arrivals' models lie between its gaps.
func (t *Tape) of(g *group, seed uint64) *recorded {
	if t == nil || len(g.models) > 1 {
		return nil
	}
	if t.tracks == nil {
		t.tracks = map[track]*recorded{}
	}
	k := track{seed, g.models[0], g.Process, g.Shape}
	if t.tracks[k] == nil {
		t.tracks[k] = &recorded{draw: newDraw(g.Process, g.Shape, newRandom(seed, uint64(g.models[0])))}
	}
	return t.tracks[k]
}

// gap is number i, drawn if it has not been.
func (r *recorded) gap(i int) float64 {
	if i < len(r.gaps) {
		return r.gaps[i]
	}
	gap := r.draw.gap
	if i == 0 {
		gap = r.draw.first
	}
	r.gaps = append(r.gaps, gap())
	return r.gaps[i]
}
