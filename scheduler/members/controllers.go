package members

import "slices"

// controller notes a link of the control plane's.
func (c *Cluster) controller(conn Conn) {
	if !slices.Contains(c.controllers, conn) {
		c.controllers = append(c.controllers, conn)
	}
}

// leaveController forgets one, and whom its orders are to be answered to: what they ask for
// goes on.
func (c *Cluster) leaveController(conn Conn) bool {
	before := len(c.controllers)
	c.controllers = slices.DeleteFunc(c.controllers, func(x Conn) bool { return x == conn })
	if len(c.controllers) == before {
		return false
	}
	for _, b := range c.backends {
		for _, u := range b.units {
			c.drop(u, func(w *order) bool { return w.conn == conn })
		}
	}
	if len(c.controllers) == 0 {
		c.plan = 0 // the next may have lost its state, and number plans anew; who leads is not said here
	}
	return true
}
