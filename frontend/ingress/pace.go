package ingress

import "time"

// paceWindows is how many windows BodyTimeout has. In each, a body must come at
// BodyRate: a sender that stops, or drips, is given up after one of them.
const paceWindows = 6

// pace watches the rate of the body that a connection sends. It costs nothing where
// bodies come: fasthttp sets the end of the first window as the deadline for the body,
// and only when that has passed is anything looked at.
type pace struct {
	on    bool
	got   int64     // bytes of this window
	began time.Time // the body; zero in the first window
}

func (s *Server) paceWindow() time.Duration { return s.cfg.BodyTimeout / paceWindows }

// watch demands the least rate of the body that is still to come, until handle ends.
func (s *Server) watch(x *exchange) {
	if c, ok := x.ctx.Conn().(*conn); ok && unread(x.ctx) {
		c.pace = pace{on: true, got: prefetched}
		x.watched = c
	}
}

// goOn judges a window that has passed without the whole body, and begins the next. A
// window that passed while we were busy, and did not wait for the body, is forgiven.
func (c *conn) goOn() bool {
	if c.s.givenUp.Load() {
		return false
	}
	window, now := c.s.paceWindow(), time.Now()
	if c.pace.began.IsZero() {
		c.pace.began = c.read.want.Add(-window)
	}
	waited := now.Sub(c.read.want) < window/8
	left := c.pace.began.Add(c.s.cfg.BodyTimeout).Sub(now)
	if waited && c.pace.got < int64(float64(c.s.cfg.BodyRate)*window.Seconds()) || left < window/8 {
		return false
	}
	c.pace.got = 0
	c.read = limit{want: now.Add(min(window, left))}
	return true
}
