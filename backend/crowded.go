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

// crowd tells whether others have the processors that a pool's devices would run on: by how long their threads
// wait for one. Owned by learnAll.
type crowd struct{ ran, waited time.Duration }

// crowdLeast is what a wait must come to before it counts: a few ms are any host's.
const crowdLeast = 10 * time.Millisecond

// crowded looks: true where the threads waited for more than half of the time that they ran since the last look. Where
// the kernel does not tell it is false.
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
