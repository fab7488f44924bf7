// Package cuda is the only door to NVIDIA's driver: it implements cuda.Driver of
// backend/cuda.
//
//	backend/cuda --> gorgonia.org/cu --cgo--> trampolines --> libcuda.so.1
//	             \-> shim (C) --------------> (our cu...)     by dlopen
//
// Tag cuda decides whether it is linked: cuda.h of CUDA 12 is needed then, to build.
// Without the tag, without cgo, or on another system than Linux on amd64 and arm64 every
// call returns a *cuda.UnsupportedError (cuda_stub.go). The driver's library is looked for
// at the first call, so one binary starts on all hosts; where it is missing, too old, or
// finds no GPU, the error is a *cuda.UnsupportedError too and says what to do.
//
// gorgonia.org/cu is linked with -lcuda, and its init ends the process where cuInit
// fails. So the functions that it calls are ours (trampolines.c): each jumps where
// dlsym has found the driver's. The linker's libcuda is the empty one in link/.
// docs/decisions/0034 has the reasons.
//
// Invariants:
//  1. No call reaches the driver before sc_load has returned 0.
//  2. A context is the device's primary one, which ONNX Runtime uses, too.
//  3. After an error of a kind that CUDA does not recover from, the device is lost to all
//     that have it open in this process: each call says so, without asking the driver.
//     What was made of it can be closed. Then it can be opened again, if the driver lets
//     it: as long as ONNX Runtime's libraries hold the primary context, it does not.
//  4. Pinned memory is mapped by us and registered: it outlives a lost device, and who
//     still writes into it (an RDMA device) does no harm.
//  5. Memory of the host that is not pinned is left alone by the driver once a copy's call
//     has returned: Go may move on with it.
//  6. What is called for a batch allocates nothing.
//
// What it needs of gorgonia.org/cu and that lacks, or allocates for (elapsed times,
// queries, UUIDs of MIG instances, registered memory), is in shim.c.
package cuda
