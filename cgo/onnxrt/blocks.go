//go:build cgo

package onnxrt

// #include <stdlib.h>
// #ifdef __GLIBC__
// #include <malloc.h>
// #endif
//
// static void sym_large_blocks(int from)
// {
// #ifdef __GLIBC__
// 	mallopt(M_MMAP_THRESHOLD, from);
// #endif
// }
import "C"

// largeBlock is what a block takes at least that goes back to the system when it is freed.
const largeBlock = 1 << 20

// ReturnLargeBlocks has C's large blocks go back to the system as soon as they are freed. ONNX
// Runtime reads a model into some; glibc, which takes blocks of up to 32 MiB for ordinary ones once
// it has freed one like them, would keep them for as long as the process lives.
func ReturnLargeBlocks() { C.sym_large_blocks(largeBlock) }
