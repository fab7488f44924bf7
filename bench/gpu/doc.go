// Package gpu is what `make test-gpu` runs on a machine with an NVIDIA GPU: whether the
// driver, the device and the models do what the rest of the system assumes of them, and what
// this GPU makes of the whole. `symphony bench gpu` wires it; it writes REPORT.md with data
// and plots.
//
//	discovery, conformance                             Driver, NVML, drivertest
//	outputs, latency, spread, overlap, loads, paging   Direct: models on a device, no scheduler
//	goodput, prediction, timeline                      System: frontend, scheduler, backend over TCP
//	scaling                                            the scheduler alone
//
// # Rules
//
//  1. Each part may fail alone: its error stands in the report, with what it had measured by
//     then, and the next one runs. Only a part that does not come back takes those with it
//     that need what it holds.
//  2. The whole ends within Options.Limit. Each part gets its share of the time that is left,
//     measures as much as that allows, and says how much that was.
//  3. Whatever ends it, what was measured is written: also after Ctrl-C.
//  4. What is computed of measurements (fits, intervals, histograms, searches) knows no
//     device, and is tested without one.
//
// # Units
//
// Spans within the package are mono.Dur. In a Result they are float64 in milliseconds, as the
// names say (SpanMS), and microseconds where they are small (CopyUS).
//
// # Rejected
//
// A Go test of the tag: a report with plots is no test's output, and whoever borrows a GPU
// for ten minutes needs what was measured before the first failure.
package gpu
