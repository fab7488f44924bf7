// Package rdmae2e tests the system on a real RDMA device: symphony's parts as
// processes that READ each other's memory, and peers of its own that it stops,
// kills and confuses. `make test-rdma` runs it in a VM on soft-RoCE; on other
// machines it is skipped, unless they promise a device (SYMPHONY_REQUIRE_RDMA=1).
//
//	endtoend_test.go   the digits model, inputs by READ
//	idle_test.go       a READ takes no time of the peer's process
//	link_test.go       faults of one link: keys, slabs, receives, silence
//	killed_test.go     kill -9 of either end of a link in the middle of READs
//	faults_test.go     the same, and silence, for the system's parts under load
//	network_test.go    the device's network goes down and comes back
//	choice_test.go     who talks TCP, who RDMA, who refuses
//
// Whatever a test does, the kernel must hold as much for RDMA after it as before
// (resources_test.go). No test asserts a latency beyond the bound on hanging:
// soft-RoCE under emulation is slow.
package rdmae2e
