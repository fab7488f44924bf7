//go:build !linux

package doctor

// Here knows nothing of other systems: what serves runs on Linux.
func Here() *Host { return &Host{Root: "/nowhere", Kernel: "unknown"} }
