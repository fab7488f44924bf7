// A libcuda.so.1 for tests: a driver with two GPUs, the second of which is a MIG instance.
// Work is done in the call that queues it; time is counted, not spent: each stream has a
// clock, copies and kernels move it on, and events note it. So what is true of streams and
// events is true of it, and nothing but the door to it is tested.
//
// FAKE_CUDA_INIT is what cuInit returns. cuMemAlloc of 2^40 + n returns n; an error of
// 700 or more, but 712, stays with the context until its last holder has released it.
#include <cuda.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS = 2, PINS = 256, BLOCKS = 256 };
static const size_t memory = 1u << 30;

struct CUctx_st {
	int holders, sticky, handles; // handles: streams, events
	size_t used;
	struct { char *at; size_t size; } blocks[BLOCKS];
};
struct CUstream_st { CUcontext ctx; double ms; };
struct CUevent_st { CUcontext ctx; double ms; int recorded; };

// Calls have their turn in the order in which they came, as copies of a GPU's streams have: who copies without a
// pause would keep a mutex alone from all others, for seconds on a busy host.
static struct {
	pthread_mutex_t mu;
	pthread_cond_t next;
	unsigned long came, served;
} turns = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
static struct CUctx_st gpus[GPUS];
static struct { char *at; size_t size; CUcontext ctx; } pins[PINS];
static __thread CUcontext current;
static __thread CUstreamCaptureMode capture_mode; // global at first, as the real one is
static int initialised;

// Each call begins so, and ends by leave.
#define ENTER() \
	if (!initialised) return CUDA_ERROR_NOT_INITIALIZED; \
	if (!current) return CUDA_ERROR_INVALID_CONTEXT; \
	if (!current->holders) return CUDA_ERROR_CONTEXT_IS_DESTROYED; \
	if (current->sticky) return current->sticky; \
	enter()
static void enter(void)
{
	pthread_mutex_lock(&turns.mu);
	for (unsigned long turn = turns.came++; turn != turns.served;)
		pthread_cond_wait(&turns.next, &turns.mu);
	pthread_mutex_unlock(&turns.mu);
}
static CUresult leave(CUresult r)
{
	pthread_mutex_lock(&turns.mu);
	turns.served++;
	pthread_cond_broadcast(&turns.next);
	pthread_mutex_unlock(&turns.mu);
	return r;
}

CUresult cuInit(unsigned flags)
{
	const char *code = getenv("FAKE_CUDA_INIT");
	initialised = !code;
	return code ? atoi(code) : CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int *v) { return *v = 12090, CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult e, const char **s)
{
	return *s = e == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : e == 100 ? "CUDA_ERROR_NO_DEVICE" : e == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : NULL, *s ? 0 : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetErrorString(CUresult e, const char **s) { return *s = "as the test wants", CUDA_SUCCESS; }

CUresult cuDeviceGetCount(int *n) { return *n = GPUS, CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice *d, int i) { return *d = i, i >= 0 && i < GPUS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE; }
CUresult cuDeviceGetName(char *name, int n, CUdevice d) { return strncpy(name, d ? "NVIDIA Fake MIG 1g.1gb" : "NVIDIA Fake", n), CUDA_SUCCESS; }
CUresult cuDeviceTotalMem(size_t *n, CUdevice d) { return *n = memory, CUDA_SUCCESS; }
CUresult cuDeviceGetUuid(CUuuid *u, CUdevice d) { return memset(u->bytes, 0xab, 16), CUDA_SUCCESS; }
#ifndef OLD
CUresult cuDeviceGetUuid_v2(CUuuid *u, CUdevice d) { return memset(u->bytes, d ? 0xcd : 0xab, 16), CUDA_SUCCESS; }
#endif
CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice d)
{
	switch (a) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *v = 9; break;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *v = d ? 16 : 132; break;
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *v = 0x3b; break;
	default: *v = 0;
	}
	return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d)
{
	enter();
	*c = &gpus[d];
	gpus[d].holders++;
	return leave(CUDA_SUCCESS);
}
CUresult cuDevicePrimaryCtxRelease(CUdevice d)
{
	enter();
	if (!gpus[d].holders)
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	if (--gpus[d].holders == 0) {
		memset(&gpus[d], 0, sizeof gpus[d]);
		for (int i = 0; i < PINS; i++)
			if (pins[i].ctx == &gpus[d])
				pins[i].at = NULL;
	}
	return leave(CUDA_SUCCESS);
}
CUresult cuDevicePrimaryCtxGetState(CUdevice d, unsigned *flags, int *active) { return *flags = 0, *active = gpus[d].holders > 0, CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext c) { return current = c, CUDA_SUCCESS; }
CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) { return *least = 0, *greatest = -5, CUDA_SUCCESS; }

CUresult cuMemGetInfo(size_t *free, size_t *total)
{
	ENTER();
	*free = memory - current->used;
	*total = memory;
	return leave(CUDA_SUCCESS);
}
CUresult cuMemAlloc(CUdeviceptr *p, size_t n)
{
	ENTER();
	if (n >> 40 == 1 && n & 0xffff) {
		int code = n & 0xffff;
		if (code >= 700 && code != 712)
			current->sticky = code;
		return leave(code);
	}
	if (n > memory - current->used)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	for (int i = 0; i < BLOCKS; i++)
		if (!current->blocks[i].at) {
			current->blocks[i].at = malloc(n);
			current->blocks[i].size = n;
			current->used += n;
			return *p = (CUdeviceptr)current->blocks[i].at, leave(CUDA_SUCCESS);
		}
	return leave(CUDA_ERROR_OUT_OF_MEMORY);
}
CUresult cuMemFree(CUdeviceptr p)
{
	ENTER();
	for (int i = 0; i < BLOCKS; i++)
		if (p && current->blocks[i].at == (char *)p) {
			free(current->blocks[i].at);
			current->used -= current->blocks[i].size;
			current->blocks[i].at = NULL;
			return leave(CUDA_SUCCESS);
		}
	return leave(CUDA_ERROR_INVALID_VALUE);
}
static int outside(CUdeviceptr p, size_t n)
{
	for (int i = 0; i < BLOCKS; i++)
		if (current->blocks[i].at && (char *)p >= current->blocks[i].at && (char *)p + n <= current->blocks[i].at + current->blocks[i].size)
			return 0;
	return 1;
}
CUresult cuMemHostRegister(void *at, size_t n, unsigned flags)
{
	int room = -1;
	ENTER();
	if (flags != CU_MEMHOSTREGISTER_PORTABLE)
		return leave(CUDA_ERROR_INVALID_VALUE);
	for (int i = 0; i < PINS; i++)
		if (!pins[i].at)
			room = i;
		else if ((char *)at < pins[i].at + pins[i].size && pins[i].at < (char *)at + n)
			return leave(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	if (room < 0)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	pins[room].at = at;
	pins[room].size = n;
	pins[room].ctx = current;
	return leave(CUDA_SUCCESS);
}
CUresult cuMemHostUnregister(void *at)
{
	ENTER();
	for (int i = 0; i < PINS; i++)
		if (pins[i].at == at)
			return pins[i].at = NULL, leave(CUDA_SUCCESS);
	return leave(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

CUresult cuStreamCreateWithPriority(CUstream *s, unsigned flags, int priority)
{
	ENTER();
	if (flags != CU_STREAM_NON_BLOCKING || priority > 0 || priority < -5)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*s = calloc(1, sizeof **s);
	(*s)->ctx = current;
	current->handles++;
	return leave(CUDA_SUCCESS);
}
CUresult cuStreamDestroy(CUstream s)
{
	ENTER();
	current->handles--;
	free(s);
	return leave(CUDA_SUCCESS);
}
CUresult cuStreamSynchronize(CUstream s)
{
	ENTER();
	return leave(CUDA_SUCCESS);
}
// Nothing captures here. A thread's mode counts for those that do elsewhere.
CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status)
{
	ENTER();
	*status = CU_STREAM_CAPTURE_STATUS_NONE;
	return leave(CUDA_SUCCESS);
}
CUresult cuStreamEndCapture(CUstream s, CUgraph *graph)
{
	ENTER();
	return leave(CUDA_ERROR_ILLEGAL_STATE);
}
CUresult cuGraphDestroy(CUgraph graph)
{
	ENTER();
	return leave(CUDA_ERROR_INVALID_VALUE);
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode before = capture_mode;

	ENTER();
	capture_mode = *mode;
	*mode = before;
	return leave(CUDA_SUCCESS);
}
CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags)
{
	ENTER();
	if (s->ms < e->ms)
		s->ms = e->ms;
	return leave(CUDA_SUCCESS);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t n, CUstream s)
{
	ENTER();
	if (outside(to, n))
		return leave(CUDA_ERROR_INVALID_VALUE);
	memcpy((void *)to, from, n);
	s->ms += 0.005 + n / 20e6;
	return leave(CUDA_SUCCESS);
}
CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t n, CUstream s)
{
	ENTER();
	if (outside(from, n))
		return leave(CUDA_ERROR_INVALID_VALUE);
	memcpy(to, (void *)from, n);
	s->ms += 0.005 + n / 20e6;
	return leave(CUDA_SUCCESS);
}

CUresult cuEventCreate(CUevent *e, unsigned flags)
{
	ENTER();
	if (flags != CU_EVENT_BLOCKING_SYNC)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*e = calloc(1, sizeof **e);
	(*e)->ctx = current;
	current->handles++;
	return leave(CUDA_SUCCESS);
}
CUresult cuEventDestroy(CUevent e)
{
	ENTER();
	current->handles--;
	free(e);
	return leave(CUDA_SUCCESS);
}
CUresult cuEventRecord(CUevent e, CUstream s)
{
	ENTER();
	e->ms = s->ms;
	e->recorded = 1;
	return leave(CUDA_SUCCESS);
}
CUresult cuEventQuery(CUevent e)
{
	ENTER();
	return leave(CUDA_SUCCESS);
}
CUresult cuEventSynchronize(CUevent e)
{
	ENTER();
	return leave(CUDA_SUCCESS);
}
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
	ENTER();
	*ms = to->ms - from->ms;
	return leave(from->recorded && to->recorded ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

// A module is any text, and its kernel takes 2 ms.
CUresult cuModuleLoadData(CUmodule *m, const void *image)
{
	ENTER();
	return *m = (CUmodule)image, leave(CUDA_SUCCESS);
}
CUresult cuModuleUnload(CUmodule m)
{
	ENTER();
	return leave(CUDA_SUCCESS);
}
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) { return *f = (CUfunction)m, CUDA_SUCCESS; }
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s, void **params, void **extra)
{
	ENTER();
	s->ms += 2;
	return leave(CUDA_SUCCESS);
}
