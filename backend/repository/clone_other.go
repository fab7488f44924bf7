//go:build !linux

package repository

import (
	"errors"
	"os"
)

// clone is for Linux.
func clone(to, from *os.File) error { return errors.ErrUnsupported }
