// A libnvidia-ml.so.1 as an old driver has it: one GPU, some values, and not all of the
// functions that the header knows. library_test.go compiles it.
#include <stdio.h>
#include <string.h>
#include "nvml.h"

static int started, waited;
static char gpu;

static nvmlReturn_t text(char *to, unsigned int n, const char *s)
{
	if (strlen(s) >= n)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(to, s);
	return started ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

static nvmlReturn_t number(nvmlDevice_t d, unsigned int *to, unsigned int v)
{
	if ((void *)d.handle != &gpu)
		return NVML_ERROR_INVALID_ARGUMENT;
	*to = v;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void) { started++; return NVML_SUCCESS; }
nvmlReturn_t nvmlShutdown(void) { started--; return NVML_SUCCESS; }
const char *nvmlErrorString(nvmlReturn_t r) { return r == NVML_SUCCESS ? "fine" : "an error of the old driver"; }
nvmlReturn_t nvmlSystemGetDriverVersion(char *v, unsigned int n) { return text(v, n, "450.80.02"); }
nvmlReturn_t nvmlSystemGetNVMLVersion(char *v, unsigned int n) { return text(v, n, "11.450.80.02"); }
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *v) { *v = 11000; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *n) { *n = 2; return NVML_SUCCESS; }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int i, nvmlDevice_t *d)
{
	d->handle = (void *)&gpu;
	return i == 0 ? NVML_SUCCESS : NVML_ERROR_GPU_IS_LOST;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *v, unsigned int n) { return text(v, n, "GPU-old"); }
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *v, unsigned int n) { return text(v, n, "Old GPU"); }

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *p)
{
	memset(p, 0, sizeof *p);
	p->bus = 0x3b;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *m)
{
	m->total = 16ull << 30;
	m->used = 1ull << 30;
	m->free = 15ull << 30;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_v1_t *p)
{
	if (*n < 3) { // more than go-nvml offers first
		*n = 3;
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	*n = 3;
	for (int i = 0; i < 3; i++)
		p[i] = (nvmlProcessInfo_v1_t){.pid = 100 + i, .usedGpuMemory = (1ull << 20) * (i + 1)};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *u)
{
	*u = (nvmlUtilization_t){.gpu = 55, .memory = 22};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t d, unsigned int *v) { return NVML_ERROR_NOT_SUPPORTED; }
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t d, unsigned int *v) { return number(d, v, 250000); }
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, nvmlTemperatureSensors_t s, unsigned int *v) { return number(d, v, 67); }
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t d, nvmlClockType_t c, unsigned int *v) { return number(d, v, 1000 + c); }
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t d, nvmlClockType_t c, unsigned int *v) { return number(d, v, 1500 + c); }

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t d, unsigned long long *bits)
{
	*bits = nvmlClocksThrottleReasonHwThermalSlowdown;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t d, nvmlMemoryErrorType_t e, nvmlEccCounterType_t c, unsigned long long *n)
{
	*n = 10 * e + c;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t d, nvmlPcieUtilCounter_t c, unsigned int *v) { return number(d, v, 40 + c); }
nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *s) { s->handle = (void *)&waited; return NVML_SUCCESS; }
nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t s) { return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t d, unsigned long long *t) { *t = nvmlEventTypeXidCriticalError; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t d, unsigned long long t, nvmlEventSet_t s) { return NVML_SUCCESS; }

// The first version: instances were not told.
nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t s, nvmlEventData_t *e, unsigned int ms)
{
	if (waited++)
		return NVML_ERROR_TIMEOUT;
	memset(e, 0, sizeof *e);
	e->device.handle = (void *)&gpu;
	e->eventType = nvmlEventTypeXidCriticalError;
	e->eventData = 79;
	return NVML_SUCCESS;
}
