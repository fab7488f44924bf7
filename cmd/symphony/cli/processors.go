package cli

import "runtime"

// processors is what the Go runtime began with: the cores that the process may run on,
// or less where its container has a quota (cgroup v1 or v2, rounded up, at least 2) or
// GOMAXPROCS is set. Read before anything raises it.
var processors = runtime.GOMAXPROCS(0)

// Processors is how many processors' time the process may use. What is sized by the
// machine goes by it: runtime.NumCPU knows no quota, and GOMAXPROCS is raised for the
// threads that must be on time.
func Processors() int { return processors }
