// Package cli is what the commands owe to whoever runs them: the flags that all parts
// have, the log, what Ctrl-C does, output files that are tried before the work, and
// errors that say what to do.
package cli
