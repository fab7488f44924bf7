// The C side of package cuda: the driver loaded at run time, and what gorgonia.org/cu
// lacks or allocates for. See doc.go.
#ifndef SYMPHONY_CUDA_SHIM_H
#define SYMPHONY_CUDA_SHIM_H

#include <cuda.h>
#include <stddef.h>

#if CUDA_VERSION < 11040 || CUDA_VERSION >= 13000
#error "gorgonia.org/cu compiles with cuda.h of CUDA 11.4 to 12.9: make cuda-headers fetches one"
#endif

// How far loading the driver came.
enum { SC_LOADED, SC_NO_LIBRARY, SC_TOO_OLD, SC_INIT };
struct sc_loading {
	int step;
	int code;      // SC_INIT: what cuInit returned
	char why[256]; // SC_NO_LIBRARY: dlerror; SC_TOO_OLD: the function that is missing
};
struct sc_loading sc_load(void); // loads once in a process

struct sc_uuid {
	int code, mig; // mig: it is an instance of a GPU
	unsigned char bytes[16];
};
struct sc_elapsed {
	int code;
	float ms;
};

const char *sc_error_name(int code); // "CUDA_ERROR_OUT_OF_MEMORY"; never NULL
const char *sc_error_text(int code); // "out of memory"; never NULL
struct sc_uuid sc_uuid(CUdevice device);
int sc_host_register(void *at, size_t bytes);
int sc_host_unregister(void *at);
int sc_event_query(CUevent event);
struct sc_elapsed sc_event_elapsed(CUevent from, CUevent to);
int sc_end_capture(CUstream stream);
int sc_relax(void);
void sc_prefer_node(void *at, size_t bytes, int node);

#endif
