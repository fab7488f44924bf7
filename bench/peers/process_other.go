//go:build !linux

package peers

import (
	"errors"
	"syscall"
)

func withParent() *syscall.SysProcAttr { return nil }

func adopt() error {
	return errors.New("bench peers needs Linux: Triton is there for Linux only, and what servers leave behind is found in /proc")
}

func killBelow(int) {}

func reap(int) {}

func memoryFree() int64 { return 0 }
