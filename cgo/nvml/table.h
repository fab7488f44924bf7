// What this package's C and Go share.
#ifndef SYMPHONY_NVML_TABLE_H
#define SYMPHONY_NVML_TABLE_H

// The library's name, for go-nvml and for us.
#define SN_LIBRARY "libnvidia-ml.so.1"

struct sn_symbol {
	void **slot;
	const char *name;
};

// The table of trampolines.c. Ended by one without a name.
extern const struct sn_symbol sn_symbols[];

// Whether the slots have been filled.
extern int sn_loaded;

// Fills them, unless that is done. Returns NULL, or why it could not: valid until the next
// call. One call at a time.
const char *sn_load(void);

#endif
