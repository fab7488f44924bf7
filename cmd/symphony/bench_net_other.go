//go:build !linux

package main

import "syscall"

// endWithParent: the end of its input has to do there.
func endWithParent() *syscall.SysProcAttr { return nil }
