// The table of trampolines.c, for load.c.
#ifndef SYMPHONY_CUDA_TABLE_H
#define SYMPHONY_CUDA_TABLE_H

struct sc_symbol {
	void **slot;
	const char *name;
	int needed;
};

// Ended by one without a name.
extern const struct sc_symbol sc_symbols[];

// Whether the slots have been filled.
extern int sc_loaded;

#endif
