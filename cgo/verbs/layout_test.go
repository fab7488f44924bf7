package verbs

import (
	"testing"
	"unsafe"

	"github.com/symphony-serving/symphony/rdma"
)

// TestLayout pins the memory of what C reads and writes as it lies there, in builds
// without C too. data.c asserts the same numbers.
func TestLayout(t *testing.T) {
	var s rdma.SendWR
	var r rdma.RecvWR
	var c rdma.Completion
	var g rdma.SGE
	for _, f := range []struct {
		name      string
		got, want uintptr
	}{
		{"size of SGE", unsafe.Sizeof(g), 16},
		{"SGE.Length", unsafe.Offsetof(g.Length), 8},
		{"SGE.LKey", unsafe.Offsetof(g.LKey), 12},
		{"size of SendWR", unsafe.Sizeof(s), 64},
		{"SendWR.Remote", unsafe.Offsetof(s.Remote), 8},
		{"SendWR.SGEs", unsafe.Offsetof(s.SGEs), 16},
		{"SendWR.Op", unsafe.Offsetof(s.Op), 48},
		{"SendWR.RKey", unsafe.Offsetof(s.RKey), 52},
		{"SendWR.Imm", unsafe.Offsetof(s.Imm), 56},
		{"SendWR.NumSGE", unsafe.Offsetof(s.NumSGE), 60},
		{"SendWR.Signaled", unsafe.Offsetof(s.Signaled), 62},
		{"SendWR.Fence", unsafe.Offsetof(s.Fence), 63},
		{"size of RecvWR", unsafe.Sizeof(r), 24},
		{"RecvWR.SGE", unsafe.Offsetof(r.SGE), 8},
		{"size of Completion", unsafe.Sizeof(c), 32},
		{"Completion.Status", unsafe.Offsetof(c.Status), 8},
		{"Completion.Kind", unsafe.Offsetof(c.Kind), 12},
		{"Completion.Bytes", unsafe.Offsetof(c.Bytes), 16},
		{"Completion.Imm", unsafe.Offsetof(c.Imm), 20},
		{"Completion.QP", unsafe.Offsetof(c.QP), 24},
		{"Completion.Vendor", unsafe.Offsetof(c.Vendor), 28},
	} {
		if f.got != f.want {
			t.Errorf("%s is %d, and %d in shim.h", f.name, f.got, f.want)
		}
	}
}
