//go:build cgo

package onnxrt

// #include <signal.h>
// #include <string.h>
//
// // What the kernel calls for each signal; in words, whatever the struct is called in C.
// enum { SYM_SIGNALS = 65 };
// struct sym_signals { struct sigaction at[SYM_SIGNALS]; };
//
// static void *sym_handler(const struct sigaction *a)
// {
// 	return a->sa_flags & SA_SIGINFO ? (void *)a->sa_sigaction : (void *)a->sa_handler;
// }
//
// static void sym_signals_save(struct sym_signals *s)
// {
// 	memset(s, 0, sizeof *s);
// 	for (int i = 1; i < SYM_SIGNALS; i++)
// 		sigaction(i, NULL, &s->at[i]); // of two of them glibc tells nothing
// }
//
// // Puts back what somebody else changed and returns the signals as bits. Go's own handler,
// // the same function for all, is left where Go put it meanwhile.
// static unsigned long long sym_signals_restore(const struct sym_signals *s)
// {
// 	unsigned long long changed = 0;
// 	void *go = sym_handler(&s->at[SIGURG]);
//
// 	for (int i = 1; i < SYM_SIGNALS; i++) {
// 		struct sigaction now;
//
// 		if (sigaction(i, NULL, &now) != 0)
// 			continue;
// 		if (sym_handler(&now) == sym_handler(&s->at[i]) && now.sa_flags == s->at[i].sa_flags)
// 			continue;
// 		if (sym_handler(&now) == go && now.sa_flags & SA_ONSTACK)
// 			continue;
// 		if (sigaction(i, &s->at[i], NULL) == 0)
// 			changed |= 1ull << (i - 1);
// 	}
// 	return changed;
// }
import "C"

import "golang.org/x/sys/unix"

// KeepSignals calls f, which runs code of the CUDA libraries that may set signal handlers of
// its own, and puts Go's back: Go ends the process at a signal whose handler is not on the
// signal stack, Ctrl-C for one. It returns the signals that were taken.
func KeepSignals(f func() error) ([]unix.Signal, error) {
	var before C.struct_sym_signals
	C.sym_signals_save(&before)
	err := f()
	var taken []unix.Signal
	for changed, i := uint64(C.sym_signals_restore(&before)), 1; changed != 0; changed, i = changed>>1, i+1 {
		if changed&1 != 0 {
			taken = append(taken, unix.Signal(i))
		}
	}
	return taken, err
}
