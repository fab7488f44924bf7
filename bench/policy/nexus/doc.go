// Package nexus is the Nexus baseline as a policy.Scheduler: a plan made once
// an epoch says which models each GPU runs and in which batch sizes, frontends
// spread requests over the plan without talking to each other, and each GPU
// runs what it was sent.
//
//	rates of the last epoch --fill--> plan: GPU -> (model, batch, rate)...
//	request --frontend's own order--> queue of (GPU, model) --in turn--> batch
//
// # Sources
//
// The Symphony paper gives the frame. Section 2.2: every 10 s a plan of the
// models and expected batch sizes of each GPU, frontends that route each request
// to a GPU that runs its model, GPUs that take their models round-robin, a
// smaller batch where fewer requests wait, a drop of the excess where more do.
// Section 5.3: a request waits for l(b) at the worst, and the partition of
// models to GPUs is static.
//
// How the plan is made and which requests are dropped is not in it. Squishy bin
// packing, duty cycles and early drop are of the Nexus paper (Shen et al., SOSP
// 2019). Its text was not at hand here: "The plan" below is the idea as it is
// commonly told, and what was chosen to fill it in is under "Decided here".
//
// # The plan (plan.go)
//
// A session is a model with its SLO and its rate. Squishy bin packing:
//
//   - Whole GPUs first. B is the largest batch with 2*l(B) <= SLO: a request
//     that just missed a batch waits for l(B) and runs for l(B). A GPU carries
//     B/l(B) of the rate, and the session gets as many as it fills.
//   - The rest of its rate, r, is a node: the largest batch b with
//     d + l(b) <= SLO, where the duty cycle d = b/r is the time in which b
//     requests come.
//   - Nodes are merged, the fullest first, each into the node that it fills
//     best: d is the lesser of both, each batch is ceil(d*r), and the sum of
//     l(batch) must not exceed d. Both changes shorten what a request waits
//     for, so each SLO still holds.
//
// # The GPU (gpu.go)
//
// It serves its sessions in turn and passes over empty ones. A batch has the
// planned size at most, and runs at once with fewer (eager): waiting for the
// duty cycle would be a form of deferring, which Nexus does not do.
//
// # Decided here
//
// What both sources leave open, or what was at hand of them. The choices are
// meant to favour Nexus.
//
//   - The factor (fill.go). The plan of the observed rates needs some number of
//     GPUs, not the number there are. All rates are scaled by one factor, the
//     largest whose plan fits: bisection finds an edge, and steps of 1 % look
//     for plans that fit above it. Under overload all models give way alike.
//   - Spare GPUs. They are used, as Figure 2 shows: the earlier systems occupy
//     all GPUs before their peak (sections 3.5 and 5.4). How they are shared is
//     ours: by the factor, and where its last step would need several GPUs more
//     than there are, those left over double the fullest nodes.
//   - Bursts (burst.go). If the GPUs can carry the rates as they are, each rate
//     has a burst on top before it is scaled, 2.33 deviations of Poisson
//     arrivals in half an SLO. So spare GPUs go to all models by what each needs
//     to keep its p99. Otherwise the plan is for the mean rates.
//   - Growth (grow.go). Batches grow while each request is in time that waits
//     for a round of all the batches of its GPU and runs in the next. A GPU with
//     the rest of a session alone becomes a whole one.
//   - Shares (route.go). Frontends share a model's requests by what each of its
//     GPUs can take in its rounds, not by the rate that was packed there.
//   - Tight models. One with 2*l(1) above its SLO is planned in batches of one,
//     and runs in whatever its SLO allows.
//   - Too few GPUs even for one request a turn of each model: the nodes that are
//     over go to the GPUs with the shortest rounds, and those run batches of B.
//     Their requests wait for the turns of the others, which smaller batches
//     would only make more of.
//   - The network's delay comes off the SLO that the plan is made for.
//   - The early-drop window (gpu.go). A window of the planned size, or of all
//     that waits, slides over the queue, past the requests for which the batch
//     behind them would end too late. Those leave as shed, or as deadline where
//     they could not even have run alone. It happens when a batch is formed, so
//     an expired request may wait for the end of the batch before.
//   - Loading a model is free: requests that wait for a model which leaves its
//     GPU are routed again. Frontends learn a new plan at once.
//
// # What limits it on a mix
//
//	symphony sim --models=zoo:a100 --gpus=64 --policy=nexus --rate=8000 --duration=30s --json=-
//
// GPUs are busy 82 % of the time with 1.5 requests a batch: who has a GPU or
// two for itself runs at once with what is there, and what waits beyond the
// planned size loses its turn. DenseNet201 loses 2 % of its requests; all others
// are below 1 %. With --policy=eager, where all models share all GPUs, none
// loses any. That is the static partition, the cap and the early start that the
// paper describes.
//
// # Bounds
//
// Without coordination, N GPUs serve N*B/l(B) (section 5.3, Table 2): 8 GPUs,
// 4,501 r/s of ResNet50 in batches of 7 (measured there: 4,027), 713 r/s of
// InceptionResNetV2 in batches of 3 (618). paper_test.go has both.
//
// # Invariants
//
//  1. A plan has at most as many nodes as there are GPUs, and each model is in
//     it when there is a GPU: a model without arrivals counts as one request
//     an epoch.
//  2. A GPU has at most two batches undone: one runs, one was ordered ahead so
//     that it arrives when the first ends. They are planned end to end. (The
//     rule of package rank: what is compared is the policy.)
//  3. A GPU with a timer has something to run and may be given it.
//  4. A request costs O(log) of the GPUs of its model, a batch O(1) beside its
//     requests and one binary search. The plan is made off that path.
//
// An epoch ends with the first Submit or Step at or after its time, and the
// rates are counts over the true span. So the epoch needs no wake, and an idle
// scheduler plans nothing.
//
// # Rejected
//
// Rates scaled without the burst: a model with one GPU and batches of 3 gets
// the same factor as one with seven GPUs, and fails long before it. Shares by
// the packed rates: a whole GPU then fails beside one that is half idle.
//
// Smooth weighted round robin, which looks at every GPU of the model for each
// request. A heap of virtual times, one step of 1/weight for each request,
// spreads as evenly and costs O(log). Rates in integers: rates are counts over
// a span, and products of rates and spans overflow; floats are rounded after
// each product, so that no machine fuses operations.
package nexus
