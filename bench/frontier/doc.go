// Package frontier shows what latency costs in GPUs: the same workloads at 5 % to 100 % of their
// goodput under rules that wait less or more, from eager dispatch to full deferral.
//
//	Workloads --search--> goodput of the best rule --shares of it--> jobs: rule x load
//	                                                                   |  several at a time
//	                                       report, data, plots <--- points, in one order
//
// # What is measured
//
// The queue's times are those of requests that ran, from arrival to the start of their batch;
// latencies go on until the answer is back. GPUs in use has three meanings, and each point has
// all of them: the mean number that run at a time, how many from id 0 on carry 99 % of the GPU time,
// and how many ran anything at all. The second is what counts where idle GPUs are given back.
// Need is batching.Need, summed over the models for what arrived.
//
// # Invariants
//
//  1. One command on one build gives one result: every number comes from the simulator.
//  2. All rules of a workload meet the same arrivals.
//
// # Rejected
//
// Shares of each rule's own goodput: rules would be compared at different loads, and the one that
// carries least would look fastest.
package frontier
