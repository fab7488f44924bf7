//go:build rdma && rdmabench && cgo && linux

package verbs

// #include "shim.h"
// struct ibv_cq *sv_empty_cq(void);
// struct ibv_qp *sv_empty_qp(void);
import "C"

// emptyCQ and emptyQP have a provider that does nothing. They are never closed.
func emptyCQ() *cq { return &cq{d: &device{}, cq: C.sv_empty_cq()} }
func emptyQP() *qp { return &qp{d: &device{}, qp: C.sv_empty_qp()} }
