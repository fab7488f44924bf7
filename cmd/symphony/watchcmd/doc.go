// Package watchcmd is what people ask of the schedule by the command line: symphony ui FILE opens
// a saved one in the browser, symphony top follows a scheduler in a terminal, symphony explain tells
// a request's story. The last two speak to a scheduler's admin address, or read a file.
package watchcmd
