// Package shepherd is Shepherd's Flex scheduler (Zhang et al., NSDI 2023) as a
// policy.Scheduler, after the description in section 2.2 of the Symphony paper.
// Shepherd's own paper and code were not at hand: what that section leaves open
// is decided here, and said below.
//
//	Submit --> queue per model --> one candidate per model
//	                                  | the largest
//	a GPU is free --------------------+--> Dispatch
//	none is, and it is 3 times -------+--> Preempt, Dispatch
//	the smallest running batch
//
// # The rule
//
// The candidate of a model is the largest batch at the front of its queue that
// meets the first deadline if its order leaves now. When a GPU is free it takes
// the largest candidate of all, at once, however small that is. When none is
// free and the largest candidate is at least Options.Preempt times the smallest
// running batch, that batch is ended: its work is lost, its requests wait again.
//
// # Decided here
//
//   - A batch is headed by the oldest request; no request is passed over for the
//     sake of a larger batch. So the candidate shrinks as its head grows old,
//     and beyond the peak batches shrink to one, as Shepherd's curve falls in
//     Figure 2 of the paper.
//   - Between candidates of one size: the earliest deadline (in steps of 2 us),
//     then the lowest model. Among idle GPUs: the lowest id.
//   - The victim is the smallest batch; among equals the one that started last,
//     which has the least work to lose (in steps of 2 us), then the lowest id.
//   - Preemption is examined whenever a candidate has changed and no GPU is idle,
//     but not at the instant of a dispatch: a nanosecond later.
//   - The candidate runs as it is. Requests of the victim, of the same model or
//     not, go back to their queue and have to find another GPU.
//   - A preempted request that has too little time left is dropped
//     (wire.ReasonDeadline) a nanosecond later.
//   - A GPU is free when its batch has been reported, not when it was planned to
//     end. With a network between them a GPU idles for a report and an order: the
//     paper measured Shepherd in one process, without one.
//
// # Against the paper
//
// Table 2 (8 GPUs, Poisson arrivals, at most 1 % bad requests) with
//
//	symphony sim --gpus 8 --duration 20s --policy shepherd --models MODEL HOW
//
// where MODEL is ResNet50:1.053:5.072:25 or InceptionResNetV2:5.090:18.368:70,
// prints as goodput
//
//	ResNet50           --goodput    4,840 r/s (the paper: 4,445)
//	InceptionResNetV2  --goodput      841 r/s (778)
//	ResNet50           --rate 6000  1,323 r/s, beyond the peak
//
// The sizes of its batches are compared by figure 1 of bench/paper.
//
// # Cost
//
// A request costs O(log models), and twice that when its model's candidate is
// due to shrink; a batch costs O(log models + log GPUs). Nothing is searched.
//
// # Rejected
//
// To put the victim's requests back before the candidate is taken: of the same
// model they would head it, and could make it smaller than the batch that was
// given up for it.
package shepherd
