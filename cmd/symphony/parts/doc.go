// Package parts starts the parts of the system in this process, as the configuration
// says: scheduler, frontend, backend and HTTP ingress, each alone or all together, over
// what network there is. The commands that serve use it, and the benchmarks that need a
// whole system.
package parts
