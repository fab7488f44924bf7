//go:build cgo && linux && (amd64 || arm64)

#include "table.h"

#include <dlfcn.h>
#include <stdio.h>

const char *sn_load(void)
{
	static char why[512];
	void *handle;

	if (sn_loaded)
		return NULL;
	// The flags are go-nvml's, which opens and closes the library, too. It stays: this handle
	// is never closed, so the slots hold what is there.
	handle = dlopen(SN_LIBRARY, RTLD_LAZY | RTLD_GLOBAL);
	if (!handle) {
		snprintf(why, sizeof why, "%s", dlerror());
		return why;
	}
	for (const struct sn_symbol *s = sn_symbols; s->name; s++) {
		void *found = dlsym(handle, s->name);
		if (found)
			*s->slot = found;
	}
	sn_loaded = 1;
	return NULL;
}
