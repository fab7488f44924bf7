package main

import (
	"fmt"
	"runtime"

	"github.com/symphony-serving/symphony/cgo/verbs"
	"github.com/symphony-serving/symphony/transport/wire"
)

type versionCmd struct{}

// Run prints what --version prints.
func (versionCmd) Run() error {
	_, err := fmt.Println(versionText())
	return err
}

// versionText is the version of the binary, of Go, and of the wire protocol.
func versionText() string {
	with := "without RDMA"
	if verbs.Linked {
		with = "with RDMA"
	}
	return fmt.Sprintf("symphony %s (%s %s/%s, wire protocol %d, %s)", version, runtime.Version(), runtime.GOOS, runtime.GOARCH, wire.Version, with)
}
