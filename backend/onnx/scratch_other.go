//go:build cgo && !linux

package onnx

import (
	"errors"
	"os"
)

// scratch is for Linux: elsewhere models are their files.
func scratch() (*os.File, string, error) { return nil, "", errors.ErrUnsupported }
