#ifndef SYMPHONY_BINDING_H
#define SYMPHONY_BINDING_H

#include <stddef.h>
#include <stdint.h>

// A session with the tensors of one batch size, ready to run: all of it in C's memory, so
// that a run is one call and nothing is allocated. OrtSession and the like are void here:
// ONNX Runtime's header is not needed.
struct sym_binding {
	void *session, *options;
	int inputs, outputs;
	char **names;  // of the inputs, then of the outputs
	void **values; // OrtValue, likewise
};

// The first function that onnxruntime_go should have and has not; NULL: it has all.
const char *sym_missing(void);

struct sym_binding *sym_bind(void *session, void *options, int inputs, int outputs);
// Makes tensor i over memory of a place (OrtMemoryInfo). Returns a status; NULL: done.
void *sym_bind_tensor(struct sym_binding *b, int i, const char *name, uintptr_t data, size_t bytes,
		      int64_t *shape, int64_t dims, void *place, int type);
void *sym_run(const struct sym_binding *b);
void sym_unbind(struct sym_binding *b);

const char *sym_status_message(void *status);
void sym_status_release(void *status);

#endif
