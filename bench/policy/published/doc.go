// Package published is deferred batch scheduling by the rules of the code that
// Symphony's authors published (github.com/abcdabcd987/nexuslb, commit dbb9043),
// as a policy.Scheduler. They are more than the paper's Algorithm 1 says, which
// is deferred's symphony/paper: the drop rule, its target and the choice of a
// GPU are here.
//
//	Submit --> queue per model --window drop--> candidate [frontrun, latest]
//	model's timer at frontrun ---> the GPU that is free first --------> Dispatch
//	                                  | not free by then
//	                                  v
//	GPU's timer when it is free <-- ready, the least latest first ----> Dispatch
//
// # The rules
//
//   - Rate: the mean of a model's arrivals in the last 100 windows of 50 ms.
//   - Target: the largest b with l(b)*(1 + 1/n) within the SLO, n = rate*l(b)/b
//     being the GPUs that the rate needs, at least 1. If it needs no more than
//     one: the largest with l(b) + b/rate within the SLO. Before there is a rate: the
//     largest with l(b) within half the SLO.
//   - Window drop: heads are cut off until the head bears a batch of all that
//     remain. Of these, but no more than the target, the batch is made: of the
//     cut ones those that bear it come back, the others are dropped. Then it
//     grows as far as the first deadline lets it.
//   - Window: the batch wants to start at frontrun, d - l(b+1) less one request's
//     data and 100 us for the jitter of timers, and must by latest, d - l(b).
//   - A model's timer takes the GPU that is free first, the one that idles
//     longest, if it is free by the desired start. If not, the candidate is
//     ready. The timer of the GPU that is free first takes the ready candidate
//     with the least latest, and the batch is formed anew for the time at which
//     that GPU is free.
//   - The batch starts at the frontrun of what was formed, even where that lies
//     behind the time at which the GPU is free.
//   - A GPU is free when its last batch is planned to end, whatever it reports.
//
// # Other here than there
//
//   - The network's bounds are policy.Config's, 0 where there is no network. The
//     code has constants: 100 us for an order, 50 us for a request's data, and 2 ms
//     that it takes off each deadline for the answer, which it needs on its wires
//     and which would cost it goodput here.
//   - Instants are exact. The code's timers come late, and its threads exchange
//     candidates and grants by messages.
//   - A full batch wants to start now: l(b+1) is not known.
//   - What cannot be served alone any more is dropped at once. In the code the
//     last such requests of a model are answered with its next arrival.
//   - A request that is cut, and neither dropped nor taken, is no longer cut when
//     a batch has left and what remains is few enough. In the code it stays so.
//   - The code's backends give up plans that are 20 ms late. Here such a GPU gets no
//     more until it reports.
//   - Rate windows begin with a model's first arrival.
//   - Requests of a lost GPU wait again under their old deadlines; in the code
//     they are lost.
//
// # Against ours
//
// Goodput with
//
//	symphony sim --models MODELS --gpus N --goodput --policy POLICY
//
//	                           symphony/code  symphony  eager/target
//	resnet50:1.053:5.072:25, 8    5,299 r/s    5,506 r/s   5,373 r/s
//	zoo:a100, 64                 17,214 r/s   18,393 r/s  18,075 r/s
//
// At --rate 8000 the one model is served at 5,835 r/s in batches of 16: the target is
// the staggered batch, so the top is flat. Below the peak that is too large a
// target (GPUs are busy for 90 % at its goodput).
//
// # Cost
//
// A request costs O(log queue) for the cut and O(log models), a batch O(log models +
// log GPUs); every 50 ms a model's target costs O(largest batch).
//
// # Rejected
//
// A third drop policy of package batching, to run in deferred: its GPUs are
// chosen by rank, whose smallest id is the opposite of the code's choice, and its
// batch is not formed anew for a GPU that is free later.
package published
