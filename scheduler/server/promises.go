package server

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// onPromise takes what a backend says of whom it obeys, and of what it runs for another.
func (b *backend) onPromise(l transport.Link, m transport.Frame) {
	g := b.server.group
	switch {
	case g == nil: // it would drive what others may drive, too
		err := errors.New("this backend has a group of schedulers (--scheduler A+B), and this one is in none: start it with --standby A,B")
		b.server.refusals.Refused("backend "+b.name, err)
		refuse(l, err)
		return
	case !b.admitted.Load():
		l.Close(fmt.Errorf("%w: a promise of who is not admitted", transport.ErrProtocol))
		return
	}
	b.said.Store(true)
	var err error
	if m.Kind == wire.KindRunning {
		r := &b.running
		if err = r.Decode(m.Body, l.Shift()); err == nil && uint64(r.Epoch) != b.server.reign.Load() {
			b.server.held.runs(mono.Now(), b.conn, r, b.server.release)
		}
	} else {
		var p wire.Promised
		if err = p.Decode(m.Body); err == nil {
			g.promised(b.conn, p)
		}
	}
	if err != nil {
		l.Close(errors.Join(transport.ErrProtocol, err))
	}
}

// saysMost is how long a backend of a group has to say whom it obeys.
const saysMost = 5 * mono.Second

// lookForMute tells of backends that say nothing of whom they obey: they know of no group, and their
// GPUs are not used. Caller holds mu.
func (s *Server) lookForMute(now mono.Time) {
	if s.group == nil {
		return
	}
	for _, b := range s.backends {
		if b.admitted.Load() && !b.said.Load() && !b.told && now.Sub(b.since) > saysMost {
			b.told = true
			s.log.Warn().Str("backend", b.name).Msg("this backend does not say which scheduler it obeys, and its GPUs are not used: give it the whole group, as --scheduler A+B; where there is one scheduler only, start that without --standby")
		}
	}
}
