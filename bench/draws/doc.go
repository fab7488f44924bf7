// Package draws compares scheduling policies on mixes of models that nothing was
// tuned on: drawn at random from a seed, small clusters and large ones.
//
//	seed, index --Draw--> Mix --pilot--> span --a search each--> goodputs --> ratios, plot, the worst explained
//	                                                 |
//	                                           results.jsonl
//
// Rules:
//
//  1. A mix is a function of its seed and index. Seeds below 100 are for
//     development; a report is of seeds that nobody looked at before.
//  2. All policies of a mix have the same arrivals, span and grid of rates, and all
//     searches begin at one place of it. Where a search begins moves nothing but its
//     cost (crossing.go).
//  3. A mix's ratio is ours to the best of all others, chosen with hindsight,
//     which no operator has.
//  4. What came out below the line is measured again, longer and with three other
//     seeds of arrivals, as one measurement; so is a part of what did not (again.go).
package draws
