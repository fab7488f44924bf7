//go:build cuda && cgo && linux && (amd64 || arm64)

// dlopen, not a link: one binary starts on every host, and where there is no driver it
// serves without GPUs.
#include "shim.h"
#include "table.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sc_loading state;

static void load(void)
{
	CUresult (*init)(unsigned int);
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);

	if (!handle) {
		state.step = SC_NO_LIBRARY;
		snprintf(state.why, sizeof state.why, "%s", dlerror());
		return;
	}
	*(void **)&init = dlsym(handle, "cuInit");
	if (!init) {
		state.step = SC_TOO_OLD;
		snprintf(state.why, sizeof state.why, "cuInit");
		return;
	}
	for (const struct sc_symbol *s = sc_symbols; s->name; s++) {
		void *found = dlsym(handle, s->name);
		if (found) {
			*s->slot = found;
		} else if (s->needed && !state.step) {
			state.step = SC_TOO_OLD;
			snprintf(state.why, sizeof state.why, "%s", s->name);
		}
	}
	if (state.step)
		return;
	sc_loaded = 1;
	state.code = init(0);
	if (state.code != CUDA_SUCCESS)
		state.step = SC_INIT;
}

struct sc_loading sc_load(void)
{
	pthread_once(&once, load);
	return state;
}

// What gorgonia.org/cu calls as the process starts, and ends the process if that fails. The
// driver is not asked before somebody wants a GPU: that takes its time, and most of this
// binary's commands want none.
__attribute__((visibility("hidden"))) CUresult CUDAAPI cuInit(unsigned int flags)
{
	(void)flags;
	return CUDA_SUCCESS;
}
