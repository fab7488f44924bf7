#ifndef SYMPHONY_KEEP_H
#define SYMPHONY_KEEP_H

#include <stddef.h>
#include <stdint.h>

// ONNX Runtime's OrtAllocator, as version 1.18 of its header had it: void where that has types.
struct sym_allocator {
	uint32_t version;
	void *(*alloc)(struct sym_allocator *, size_t bytes);
	void (*free)(struct sym_allocator *, void *);
	const void *(*info)(const struct sym_allocator *);
	void *(*reserve)(struct sym_allocator *, size_t bytes);
	void *later[3]; // functions of later versions; NULL
};

// Large blocks of one use.
struct sym_pool {
	struct sym_block *first; // that are kept, the latest one that was freed first
	size_t used, kept;       // bytes
	size_t most;             // bytes: of weights, that may be kept; of runs, that they needed at a time, used and kept
	uint64_t taken, mapped;  // how often a kept block was taken, and how often none fitted
};

// The allocator, for the process's life; place is the OrtMemoryInfo of where it allocates.
struct sym_allocator *sym_keep(const void *place);

// How much may be kept of weights, and whether anything is kept.
void sym_keep_most(size_t bytes, int on);

// Gives back what is kept.
void sym_keep_trim(void);

void sym_keep_state(struct sym_pool *weights, struct sym_pool *runs);

#endif
