//go:build !linux

package bench

import "syscall"

// endWithParent: the end of its input has to do there.
func endWithParent() *syscall.SysProcAttr { return nil }
