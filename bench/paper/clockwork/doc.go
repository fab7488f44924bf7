// Package clockwork runs the evaluation of the Clockwork paper (Gujarati et al., OSDI 2020)
// again, under the simulator: thousands of models, of which a GPU's memory holds some.
//
//	Book.Figures --jobs--> paper.Session --> bench/sim with pages --> data, plots, REPORT.md
//
// Sections 6.1 to 6.5: Figure 5, 6, 7, 8 and the table of section 6.5. GPUs are V100s with
// the latencies, transfer times and sizes of Table 1 (package zoo), 1,376 pages of 16 MiB,
// a link to the host each, and no network: the paper's is not its bound. Figure 9 is of
// real GPUs and not here.
//
// Each runs Clockwork's whole scheduler (bench/policy/clockwork, Paged) and ours (scheduler/policy/deferred, Paged)
// on the same arrivals; `compare` divides the second by the first.
//
// # What a pass line is
//
// Each claim has a number of ours that it is held against, and says what the paper says
// beside it. Where a fluid bound is below what is offered, the run is not made: nothing
// could serve it, and the paper's text does not say what its figure ran on.
package clockwork
