//go:build cgo && linux && (amd64 || arm64)

// NVML's functions as this binary's linker sees them: each is a jump through a slot that
// sn_load fills. They are hidden, so that no library that is loaded later, nor NVML itself,
// calls them in place of NVML's. cgo/cuda has the same for the driver: two copies of these
// lines, because the go command does not notice when a header of another folder changes.
#include "symbols.h"
#include "table.h"

#include <stddef.h>

int sn_loaded;

// What a slot holds before sn_load, and afterwards where the library has no such function:
// NVML_ERROR_UNINITIALIZED, NVML_ERROR_FUNCTION_NOT_FOUND.
static int missing(void) { return sn_loaded ? 13 : 1; }

static const char *no_text(void) { return "an error for which this NVML has no text"; }

#if defined(__x86_64__)
#define JUMP(slot) "endbr64\n\tjmp *" slot "(%rip)\n"
#elif defined(__aarch64__)
#define JUMP(slot) "hint #34\n\tadrp x16, " slot "\n\tldr x16, [x16, :lo12:" slot "]\n\tbr x16\n" // hint #34: bti c
#else
#error "no trampolines for this processor"
#endif

#define TRAMPOLINE(name, type, before) \
	__attribute__((visibility("hidden"), used)) type (*sn_slot_##name)(void) = before; \
	__asm__(".pushsection .text\n" \
		"\t.p2align 4\n" \
		"\t.globl " #name "\n" \
		"\t.hidden " #name "\n" \
		"\t.type " #name ", %function\n" \
		#name ":\n\t" JUMP("sn_slot_" #name) \
		"\t.size " #name ", . - " #name "\n" \
		"\t.popsection\n");

#define RETURN(name) TRAMPOLINE(name, int, missing)
#define TEXT(name) TRAMPOLINE(name, const char *, no_text)

SN_SYMBOLS(RETURN, TEXT)

#define ENTRY(name) {(void **)&sn_slot_##name, #name},

const struct sn_symbol sn_symbols[] = {SN_SYMBOLS(ENTRY, ENTRY){NULL, NULL}};
