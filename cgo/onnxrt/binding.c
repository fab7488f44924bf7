//go:build cgo

#include "binding.h"

#include <stdlib.h>
#include <string.h>

// onnxruntime_go's own C functions (its onnxruntime_wrapper.c), which lie in the same binary.
// Weak: where a version has dropped one, the program links and sym_missing says which.
#define THEIRS __attribute__((weak))
THEIRS void *CreateOrtTensorWithShape(void *data, size_t bytes, int64_t *shape, int64_t dims, void *place, int type, void **out);
THEIRS void *RunOrtSessionWithOptions(void *session, void **in, char **in_names, int ins, void **out, char **out_names, int outs, void *options);
THEIRS void ReleaseOrtValue(void *value);
THEIRS const char *GetErrorMessage(void *status);
THEIRS void ReleaseOrtStatus(void *status);

const char *sym_missing(void)
{
	if (!CreateOrtTensorWithShape)
		return "CreateOrtTensorWithShape";
	if (!RunOrtSessionWithOptions)
		return "RunOrtSessionWithOptions";
	if (!ReleaseOrtValue)
		return "ReleaseOrtValue";
	if (!GetErrorMessage)
		return "GetErrorMessage";
	if (!ReleaseOrtStatus)
		return "ReleaseOrtStatus";
	return NULL;
}

struct sym_binding *sym_bind(void *session, void *options, int inputs, int outputs)
{
	size_t n = (size_t)inputs + (size_t)outputs;
	struct sym_binding *b = calloc(1, sizeof *b);

	if (!b)
		return NULL;
	b->names = calloc(n, sizeof *b->names);
	b->values = calloc(n, sizeof *b->values);
	if (!b->names || !b->values) {
		sym_unbind(b);
		return NULL;
	}
	b->session = session;
	b->options = options;
	b->inputs = inputs;
	b->outputs = outputs;
	return b;
}

void *sym_bind_tensor(struct sym_binding *b, int i, const char *name, uintptr_t data, size_t bytes,
		      int64_t *shape, int64_t dims, void *place, int type)
{
	b->names[i] = strdup(name);
	return CreateOrtTensorWithShape((void *)data, bytes, shape, dims, place, type, &b->values[i]);
}

void *sym_run(const struct sym_binding *b)
{
	return RunOrtSessionWithOptions(b->session, b->values, b->names, b->inputs,
					b->values + b->inputs, b->names + b->inputs, b->outputs, b->options);
}

void sym_unbind(struct sym_binding *b)
{
	for (int i = 0; i < b->inputs + b->outputs; i++) {
		if (b->values[i])
			ReleaseOrtValue(b->values[i]);
		free(b->names[i]);
	}
	free(b->names);
	free(b->values);
	free(b);
}

const char *sym_status_message(void *status)
{
	return GetErrorMessage(status);
}

void sym_status_release(void *status)
{
	ReleaseOrtStatus(status);
}
