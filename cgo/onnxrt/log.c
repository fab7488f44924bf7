//go:build cgo

#include "log.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

// Of onnxruntime_c_api.h, what has stood at the same place since its first version: a table of functions only grows at
// its end.
struct api_base {
	const void *const *(*api)(uint32_t version);
	const char *(*version)(void);
};
typedef void (*log_function)(void *param, int severity, const char *category, const char *logid, const char *location, const char *message);
typedef void *(*create_env_with_custom_logger)(log_function f, void *param, int severity, const char *logid, void **out);
typedef const char *(*get_error_message)(const void *status);
enum { GET_ERROR_MESSAGE = 2, CREATE_ENV_WITH_CUSTOM_LOGGER = 4 };

// In log.go.
extern void symOnnxrtLog(int severity, char *category, char *location, char *message);

static void log_line(void *param, int severity, const char *category, const char *logid, const char *location, const char *message)
{
	(void)param;
	(void)logid;
	symOnnxrtLog(severity, (char *)category, (char *)location, (char *)message);
}

const char *sym_log_open(const char *library, int severity)
{
	static void *env; // ONNX Runtime has one environment for the process: later calls get this one
	void *handle;
	const struct api_base *(*base)(void);
	const void *const *api;
	void *status;

	if (env)
		return NULL;
	handle = dlopen(library, RTLD_LAZY);
	if (!handle)
		return dlerror();
	base = (const struct api_base *(*)(void))dlsym(handle, "OrtGetApiBase");
	if (!base)
		return "it has no function OrtGetApiBase";
	api = base()->api(1);
	if (!api)
		return "it has no first version of its interface";
	status = ((create_env_with_custom_logger)api[CREATE_ENV_WITH_CUSTOM_LOGGER])(log_line, NULL, severity, "symphony", &env);
	return status ? ((get_error_message)api[GET_ERROR_MESSAGE])(status) : NULL;
}
