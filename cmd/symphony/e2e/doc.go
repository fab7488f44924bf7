// Package e2e tests the system from outside: it starts bin/symphony as
// processes on loopback, sends them traffic, kills them, and looks at what a
// user would see. One file per promise of the README and of ARCHITECTURE.md.
//
// The binary is built once per run. Spans are short by default so that
// `make test` stays short; SYMPHONY_E2E_FULL=1 runs each for the span that the
// promise names (60 s). No test asserts a latency of the machine: shares,
// counts and liveness bounds only, and in short runs a witness pardons what the machine's
// own pauses made late.
package e2e
