package main

import (
	"fmt"
	"runtime"

	"github.com/symphony-serving/symphony/cgo/verbs"
	"github.com/symphony-serving/symphony/transport/wire"
)

type versionCmd struct{}

// Run prints the version of the binary, of Go, and of the wire protocol.
func (versionCmd) Run() error {
	with := "without RDMA"
	if verbs.Linked {
		with = "with RDMA"
	}
	fmt.Printf("symphony %s (%s %s/%s, wire protocol %d, %s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH, wire.Version, with)
	return nil
}
