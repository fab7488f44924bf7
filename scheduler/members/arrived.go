package members

import (
	"math"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Arrived notes that the list is here that a backend was asked for, and is being read: a busy
// scheduler may take longer for a large one than a backend has to send it, and that is not the
// backend's fault. Models follows, or the backend leaves.
func (c *Cluster) Arrived(conn Conn, d catalog.Digest) {
	if l := c.known[d]; l != nil && l.asked == conn {
		l.since = mono.Time(math.MaxInt64)
	}
}
