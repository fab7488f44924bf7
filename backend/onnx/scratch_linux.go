//go:build cgo

package onnx

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// scratch is a file in memory, for a library that writes to a path: the file system may not be written to, or be small.
func scratch() (f *os.File, path string, err error) {
	fd, err := unix.MemfdCreate("symphony-model", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, "", err
	}
	path = fmt.Sprintf("/proc/self/fd/%d", fd)
	return os.NewFile(uintptr(fd), path), path, nil
}
