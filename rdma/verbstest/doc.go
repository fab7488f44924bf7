// Package verbstest is the conformance suite of rdma.Verbs: the software devices
// of rdma/fakeverbs and libibverbs' own behind cgo/verbs pass the same cases, so
// that what is tested on the first holds on the second.
//
// Where devices differ (mlx5, soft-RoCE and others do, in what the specification
// leaves open), a case allows each way and says which it knows of.
//
// No case asserts a duration but for generous limits of liveness; every case
// closes all that it opened and checks that no goroutine is left behind.
package verbstest
