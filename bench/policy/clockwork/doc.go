// Package clockwork is Clockwork's scheduler (Gujarati et al., OSDI 2020,
// section 5.3 and appendix B) as a policy.Scheduler, in the form in which
// Symphony's authors describe and measure it (Symphony, sections 2.2 and 5):
// models are loaded everywhere, and any batch size can run. Paged is the paper's whole: GPU
// memory is a cache, loads are scheduled (below).
//
//	Submit --> queue per model --> one strategy per batch size, due at d - l(b)
//	                                         | due first
//	GPU with less than 5 ms of work ---------+--> Dispatch
//
// # The rule
//
// A strategy is a model, a batch size b and the instant by which such a batch
// must start: d - l(b), d the deadline of the request that heads it. It is
// eligible for a GPU when that instant is not before the batch could start there,
// max(GPU free, now + delay(b)), and when b requests wait. A GPU that has no
// more than the lookahead of work before it takes the eligible strategy that is
// due first, and again, until it has the lookahead. The GPU that is free first
// goes first, the lowest id among equals.
//
// A batch is exactly as large as its strategy says: sizes are what the engine
// was compiled for. Among strategies with one head the largest is due first, so
// each model offers its largest eligible one. Ties between models: lowest id.
//
// Nothing asks how well a batch uses the GPU, neither the choice between models
// nor that between now and later. That is what the papers' comparison is about.
//
// # Who heads a strategy (Options.Heads)
//
// The papers allow two readings, which part beyond the peak.
//
//   - OldestRequest (default): a model's strategies are headed by its oldest
//     request, as Symphony's section 2.2 suggests. Beyond the peak each oldest
//     request has just time to run alone, and once that has begun it goes on:
//     batches of one. So Clockwork falls in Figure 2, and Figure 1 has a median
//     of 1. What it serves then agrees with Table 2's 1,358 and 458 r/s; the
//     highest rate that it holds from a calm start does not (below).
//   - EveryRequest: appendix B to the letter. Each request heads strategies, and
//     one is passed over when enough requests wait for a larger size. Then a
//     large batch of young requests goes first, and older ones that cannot be in
//     it are shed (wire.ReasonShed). It does not collapse, but it sheds early.
//
// Both on 8 GPUs, with
//
//	symphony sim --gpus 8 --duration 20s --models MODEL --policy POLICY HOW
//
// where MODEL is ResNet50:1.053:5.072:25 or InceptionResNetV2:5.090:18.368:70
// (Table 2), and the last column is the goodput that it prints:
//
//	ResNet50           clockwork        --goodput    4,181 r/s
//	ResNet50           clockwork        --rate 6000  1,313 r/s
//	InceptionResNetV2  clockwork        --goodput      787 r/s
//	InceptionResNetV2  clockwork        --rate 900     365 r/s
//	ResNet50           clockwork/every  --goodput    2,809 r/s
//	ResNet50           clockwork/every  --rate 6000  4,793 r/s
//	ResNet50           clockwork/every  --rate 8000  5,205 r/s
//
// # What else the papers leave open
//
//   - A request is dropped when an order for it alone would come too late, and
//     when the GPU that is free first could not serve it alone in time: no other
//     one could either, unless a batch ends before its plan.
//   - Work exactly as long as the lookahead counts as too little.
//   - A GPU that has not reported a batch by its planned end gets no more until
//     it does: when it is free is unknown.
//   - Requests of a lost GPU wait again under their old deadlines.
//
// # Paged
//
// Where GPUs have pages, a GPU takes the eligible strategy that is due first among the
// models that it has, and its loader the model with the highest priority (package
// residency, ByPriority; victims by LRU). Whole is the paper's reading: powers of two, every
// request heads. Where the paper is silent, Clockwork's code speaks:
//
//   - Reserve: 5 ms are taken off each SLO, as long as the lookahead and 5 ms are left.
//   - Hope: a request counts for loads if its batch could still start, with a lookahead
//     of work before it, and for 25 ms after its arrival and the load. In Figure 6 at 60
//     minutes Major has 180 r/s so, 130 without the 25 ms and 92 without the lookahead:
//     loads that end just in time for an idle GPU find a busy one.
//     However tight the SLO, a request counts for loads that begin within the lookahead and the
//     Reserve of its arrival: else models that take longer to load and run than the SLO is are never
//     loaded, which costs two thirds of the goodput at 25 ms (table of section 6.5).
//   - A request counts as l(1) * 100 ms / (the time that it has), so GPUs hold copies for
//     what they can do within the SLO.
//   - What a batch takes is the p99 of the last ten of its model and size (package
//     estimate; policy.Timed tells them).
//
// A model can run from the report of its load on, as in Clockwork. Its backends refuse what
// starts more than 10 ms late; here it runs late, and a GPU that is overdue gets no more.
// A load is planned for its GPU's own link: GPUs that share one (sim.Paging.PerLink) have
// loads refused that could not begin in time, which no reading foresees.
//
// # Cost
//
// A request costs O(log models): its place in the queue and the model's place in
// a heap. A batch costs one strategy for each model that has requests, O(1)
// each (EveryRequest: two nested binary searches), and O(log GPUs). Paged: a request costs
// O(GPUs that have its model) more, a batch one strategy for each model with requests that
// its GPU has, passed over where its earliest one is later than what was found.
//
// # Rejected
//
// The global queue of strategies, ordered by required start, of both papers.
// Each request has a strategy per size in it, so an arrival costs O(sizes), and
// each GPU passes over all that others have made void; Symphony's section 5.2
// blames it for Clockwork's missing bar in Figure 10. What would be taken from
// that queue is the largest strategy of some model, and that is computed.
package clockwork
