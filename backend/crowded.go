package backend

import (
	"fmt"
	"os"
	"time"
)

// threaded is a device whose batches run on one thread of this process.
type threaded interface {
	// Thread is the kernel's number of it; 0: not known yet.
	Thread() int
}

// crowd is how long the threads of a pool's devices ran, and how long they waited for a processor. Long waits say that
// other programs have the processors. Owned by learnAll.
type crowd struct{ ran, waited time.Duration }

// crowdLeast is the least wait that counts: each host has waits of a few ms.
const crowdLeast = 10 * time.Millisecond

// crowded reports whether, since the last call, the threads waited for more than half of the time that they ran. It is
// false where the kernel keeps no such count.
func (p *pool) crowded() bool {
	var now crowd
	for _, d := range p.devices {
		if t, ok := d.(threaded); ok {
			now.add(t.Thread())
		}
	}
	ran, waited := now.ran-p.crowd.ran, now.waited-p.crowd.waited
	p.crowd = now
	return waited > max(crowdLeast, ran/2)
}

// add takes what the kernel says of a thread.
func (c *crowd) add(thread int) {
	if thread == 0 {
		return
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/schedstat", thread))
	if err != nil {
		return // another system, or a kernel without it
	}
	var ran, waited time.Duration
	if _, err := fmt.Sscan(string(text), &ran, &waited); err == nil {
		c.ran, c.waited = c.ran+ran, c.waited+waited
	}
}
