// Package subclusters measures the partitioner: how equal it makes sub-clusters, and how many GPUs they need.
//
//	Draw, Workloads --> Problem --partition--> sub-clusters --bench/sim, each alone--> least GPUs --> table
//
// A sub-cluster is simulated by itself, since sub-clusters share nothing: its models with Poisson arrivals on more and
// fewer GPUs, until the least number is found on which 99 % of each model's requests are in time. The number that a partition
// needs is the sum.
package subclusters
