// Package version is what this binary calls itself.
package version

import (
	"fmt"
	"runtime"

	"github.com/symphony-serving/symphony/cgo/cuda"
	"github.com/symphony-serving/symphony/cgo/verbs"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Number is set by the linker (see Makefile).
var Number = "unknown"

// Text is the version of the binary, of Go, and of the wire protocol.
func Text() string {
	with := map[bool]string{true: "with", false: "without"}
	return fmt.Sprintf("symphony %s (%s %s/%s, wire protocol %d, %s RDMA, %s CUDA)",
		Number, runtime.Version(), runtime.GOOS, runtime.GOARCH, wire.Version, with[verbs.Linked], with[cuda.Linked])
}
