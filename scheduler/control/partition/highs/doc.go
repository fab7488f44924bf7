// Package highs is HiGHS, a solver of mixed integer linear programs, behind partition.Solver: compiled to WebAssembly and
// run by wazero, so that no library and no C compiler is needed.
//
//	Problem --program (appendix A's MILP)--> HiGHS in its own memory <-- incumbent
//	                                          |
//	           assignment, or nil <-----------+ at its time limit; or it is cut off at the deadline
//
// # What it is good for
//
// At the paper's larger size, 800 models on 20 sub-clusters, it has no assignment of its own within 25 seconds, or one that is
// worse than random ones (figure 16, bench/paper): the relaxation's bound is 0, so nothing is cut off. On small problems it
// finds the best. So it is asked last, with the search's assignment as its incumbent, and the better of the two counts.
//
// # Bounds
//
//  1. Time: HiGHS is told four fifths of the limit, and does not always keep it. At the limit its module is closed, wherever
//     it is; what it had found is lost then. The module is compiled once, by Prepare or the first Solve, which
//     takes two or three seconds that no limit cuts short.
//  2. Memory: memoryMost for the module; a program of more than cellsMost assignments is refused.
//  3. It sees no files, no network and no environment; the clock is all that it is given.
//
// highs.wasm.gz is the file build/highs.wasm of the npm package highs 1.15.3 (MIT, LICENSE beside it); get.sh gets it
// again and checks its digest. It adds 1.2 MB to the binary, and wazero about 4 MB.
//
// One seed does not have one result here: HiGHS stops by the clock.
package highs
