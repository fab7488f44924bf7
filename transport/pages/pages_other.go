//go:build !linux

package pages

import "errors"

// Map is for Linux: elsewhere there are no devices either.
func Map(n, node int) ([]byte, error) { return nil, errors.ErrUnsupported }

// Unmap gives memory of Map back.
func Unmap(m []byte) error { return errors.ErrUnsupported }
