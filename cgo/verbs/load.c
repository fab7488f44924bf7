//go:build rdma && cgo && linux

// dlopen, not a link: one binary starts on every host, and where the library is
// missing links use TCP. dlvsym, not dlsym: of most of these the library has two
// versions, with different structures behind them, and the header speaks of the newer.
#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct sv_library sv_lib;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char failure[256];

struct symbol {
	void **at;
	const char *name, *version;
};

#define SYMBOL(field, version) {(void **)&sv_lib.field, "ibv_" #field, version}

static void load(void)
{
	const struct symbol symbols[] = {
		SYMBOL(get_device_list, "IBVERBS_1.1"),
		SYMBOL(free_device_list, "IBVERBS_1.1"),
		SYMBOL(get_device_name, "IBVERBS_1.1"),
		SYMBOL(open_device, "IBVERBS_1.1"),
		SYMBOL(close_device, "IBVERBS_1.1"),
		SYMBOL(query_device, "IBVERBS_1.1"),
		SYMBOL(query_port, "IBVERBS_1.1"),
		SYMBOL(query_gid, "IBVERBS_1.1"),
		SYMBOL(alloc_pd, "IBVERBS_1.1"),
		SYMBOL(dealloc_pd, "IBVERBS_1.1"),
		SYMBOL(reg_mr, "IBVERBS_1.1"),
		SYMBOL(dereg_mr, "IBVERBS_1.1"),
		SYMBOL(create_comp_channel, "IBVERBS_1.0"),
		SYMBOL(destroy_comp_channel, "IBVERBS_1.0"),
		SYMBOL(create_cq, "IBVERBS_1.1"),
		SYMBOL(destroy_cq, "IBVERBS_1.1"),
		SYMBOL(get_cq_event, "IBVERBS_1.1"),
		SYMBOL(ack_cq_events, "IBVERBS_1.1"),
		SYMBOL(create_qp, "IBVERBS_1.1"),
		SYMBOL(modify_qp, "IBVERBS_1.1"),
		SYMBOL(destroy_qp, "IBVERBS_1.1"),
		SYMBOL(get_async_event, "IBVERBS_1.1"),
		SYMBOL(ack_async_event, "IBVERBS_1.1"),
	};
	void *handle = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_GLOBAL);
	if (!handle) {
		snprintf(failure, sizeof failure, "%s", dlerror());
		return;
	}
	for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
		*symbols[i].at = dlvsym(handle, symbols[i].name, symbols[i].version);
		if (!*symbols[i].at) {
			snprintf(failure, sizeof failure, "libibverbs.so.1 lacks %s@%s", symbols[i].name, symbols[i].version);
			return;
		}
	}
}

int sv_load(char *why, int len)
{
	pthread_once(&once, load);
	snprintf(why, len, "%s", failure);
	return failure[0] ? -1 : 0;
}
