//go:build cuda && cgo && linux && (amd64 || arm64)

#define _GNU_SOURCE
#include "shim.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

const char *sc_error_name(int code)
{
	const char *name = NULL;
	return cuGetErrorName(code, &name) == CUDA_SUCCESS && name ? name : "an error unknown to the driver";
}

const char *sc_error_text(int code)
{
	const char *text = NULL;
	return cuGetErrorString(code, &text) == CUDA_SUCCESS && text ? text : "it says no more";
}

// cuDeviceGetUuid gives that of the GPU, and _v2, of a MIG instance, the instance's own.
struct sc_uuid sc_uuid(CUdevice device)
{
	struct sc_uuid out = {0};
	CUuuid own, gpu;

	out.code = cuDeviceGetUuid_v2(&own, device);
	if (out.code)
		return out;
	memcpy(out.bytes, own.bytes, sizeof out.bytes);
	out.mig = cuDeviceGetUuid(&gpu, device) == CUDA_SUCCESS && memcmp(own.bytes, gpu.bytes, sizeof gpu.bytes);
	return out;
}

// Portable: pinned for the contexts of all devices.
int sc_host_register(void *at, size_t bytes) { return cuMemHostRegister(at, bytes, CU_MEMHOSTREGISTER_PORTABLE); }
int sc_host_unregister(void *at) { return cuMemHostUnregister(at); }

int sc_event_query(CUevent event) { return cuEventQuery(event); }

struct sc_elapsed sc_event_elapsed(CUevent from, CUevent to)
{
	struct sc_elapsed out = {0, 0};
	out.code = cuEventElapsedTime(&out.ms, from, to);
	return out;
}

// Ends a capture, if there is one, and drops the graph. One that a failed call has spoilt ends with
// that call's error, and has ended all the same.
int sc_end_capture(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUgraph graph = NULL;
	int code = cuStreamIsCapturing(stream, &status);

	if (code || status == CU_STREAM_CAPTURE_STATUS_NONE)
		return code;
	code = cuStreamEndCapture(stream, &graph);
	if (graph)
		(void)cuGraphDestroy(graph);
	return status == CU_STREAM_CAPTURE_STATUS_INVALIDATED ? CUDA_SUCCESS : code;
}

// ONNX Runtime captures graphs in the mode in which no thread of the process may call what could
// disturb a capture, waiting for an event among it, lest the call fail and spoil the capture. A
// thread may say that it knows what it does: ours call nothing on a stream that is captured.
int sc_relax(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	return cuThreadExchangeStreamCaptureMode(&mode);
}

// Memory that has not been touched is to come from a NUMA node, if that has some: it need
// not, so an error means nothing (a container may not allow the call).
void sc_prefer_node(void *at, size_t bytes, int node)
{
	enum { PREFERRED = 1, BITS = 8 * sizeof(unsigned long) };
	unsigned long nodes[16] = {0};

	if (node < 0 || node >= 16 * BITS)
		return;
	nodes[node / BITS] = 1ul << (node % BITS);
	(void)syscall(SYS_mbind, at, bytes, PREFERRED, nodes, 16 * BITS + 1, 0);
}
