//go:build cuda && cgo && linux && (amd64 || arm64)

// The driver's functions as this binary's linker sees them: each is a jump through a slot
// that sc_load fills. They are hidden, so that no library that is loaded later, such as
// ONNX Runtime's, calls them in place of the driver's.
#include "symbols.h"
#include "table.h"

#include <stddef.h>

int sc_loaded;

// What a slot holds before sc_load, and afterwards where the driver has no such function:
// CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_NOT_SUPPORTED.
static int missing(void) { return sc_loaded ? 801 : 3; }

#if defined(__x86_64__)
#define JUMP(slot) "endbr64\n\tjmp *" slot "(%rip)\n"
#elif defined(__aarch64__)
#define JUMP(slot) "hint #34\n\tadrp x16, " slot "\n\tldr x16, [x16, :lo12:" slot "]\n\tbr x16\n" // hint #34: bti c
#else
#error "no trampolines for this processor"
#endif

#define TRAMPOLINE(name) \
	__attribute__((visibility("hidden"), used)) int (*sc_slot_##name)(void) = missing; \
	__asm__(".pushsection .text\n" \
		"\t.p2align 4\n" \
		"\t.globl " #name "\n" \
		"\t.hidden " #name "\n" \
		"\t.type " #name ", %function\n" \
		#name ":\n\t" JUMP("sc_slot_" #name) \
		"\t.size " #name ", . - " #name "\n" \
		"\t.popsection\n");

SC_SYMBOLS(TRAMPOLINE, TRAMPOLINE)

#define NEEDED(name) {(void **)&sc_slot_##name, #name, 1},
#define OTHER(name) {(void **)&sc_slot_##name, #name, 0},

const struct sc_symbol sc_symbols[] = {SC_SYMBOLS(NEEDED, OTHER){NULL, NULL, 0}};
