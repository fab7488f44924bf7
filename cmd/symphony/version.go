package main

import (
	"fmt"
	"runtime"

	"github.com/symphony-serving/symphony/transport/wire"
)

type versionCmd struct{}

// Run prints the version of the binary, of Go, and of the wire protocol.
func (versionCmd) Run() error {
	fmt.Printf("symphony %s (%s %s/%s, wire protocol %d)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH, wire.Version)
	return nil
}
