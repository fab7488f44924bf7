// Package fleet shows a day of a large cluster: many sub-clusters, a planner, loads that take
// time and fail, GPUs that die. Package sim/fleet simulates it; here it is run and reported.
//
//	Day (control plane, step by step) --> windows (request by request), several at a time --> report, data, plot
//
// # Invariant
//
// One command on one build gives one result, to the byte: nothing here reads a clock but what
// tells how far it is.
package fleet
