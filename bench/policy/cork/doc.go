// Package cork is BentoML's adaptive batching (its CorkDispatcher) as a
// policy.Scheduler: an eager batcher that rejects early. It is the common idea of
// serving frameworks that do not plan: predict, drop what the prediction fails,
// send what is left.
//
//	Submit --> queue per model --reject, cork--> released, the oldest head first
//	a GPU is idle, and the model has a batch to spare ------------> Dispatch
//
// # The rule
//
//   - A batch of n takes a*n + b. When the head of n requests has waited w, and
//     w + a*n + b reaches its limit, it is dropped (wire.ReasonShed; alone it might
//     have run), whether a batch can start now or not. All that wait count, also
//     more than a batch can hold. The last one is dropped when its time is up.
//   - What waits is sent as one batch as soon as the model may run one more, but
//     for the cork: while n*(w' + a + 1 ms) is within 0.95 of the mean wait, w' being
//     the time since the last arrival, the model waits for more. The mean wait is
//     that of the heads of its last 50 batches. At load n is too large for it.
//   - A model runs as many batches at a time as there are GPUs: BentoML's
//     semaphore is set to the number of workers (Options.Batches 0, "cork"). With 1
//     it is a runner of its own ("cork/one").
//
// # Decided here
//
//   - a and b are those of the profile, not a fit of the last 50 batches: the
//     prediction is exact up to the largest batch and goes on with the mean slope.
//     So there is no training at the beginning either.
//   - The limit is the request's deadline: BentoML's is one number per model, which
//     is the same where requests carry their model's SLO. Queues are ordered by it.
//   - The last one is dropped when its batch would end too late (rule 4 of package
//     policy); BentoML runs it, late, or drops it when its limit is over.
//   - The mean wait follows each batch, not every five seconds; before the first
//     batch it is 0.
//   - BentoML looks each millisecond; here it is looked when something has changed.
//     The 1 ms stays in the rule.
//   - More than a batch: the oldest are taken; BentoML takes the youngest.
//   - Models share the GPUs: the one whose head waits longest goes first. BentoML
//     leaves that to the loop that wakes first. Among idle GPUs: the lowest id. A
//     GPU is idle when its batch has been reported.
//   - Requests of a lost GPU wait again, under their old deadlines.
//
// # What it does
//
//	symphony sim --models MODELS --gpus N --policy POLICY HOW
//
//	                           HOW            cork       cork/one  symphony
//	resnet50:1.053:5.072:25, 8  --goodput     3,108 r/s   413 r/s   5,506 r/s
//	resnet50:1.053:5.072:25, 8  --rate 8000   5,375 r/s   734 r/s
//	zoo:a100, 64                --goodput    14,973 r/s   622 r/s  18,393 r/s
//
// Early rejection keeps batches large beyond the peak (11.7 in the mean), as no
// head rule does (package eager: 1), but below it nothing gathers a batch: all GPUs
// are busy with three requests each, a wait of 4 ms has 14 waiting, and heads are
// shed for them.
//
// # Cost
//
// A request costs O(log models), a batch O(log models + log GPUs). Nothing is
// searched.
//
// # Rejected
//
// Other orders of the models, measured on zoo:a100: the earliest deadline first
// serves 8,120 r/s in batches of 1.1, the head that is rejected next first 8,783 r/s
// in batches of 1.3; the oldest first has batches of 3.3.
package cork
