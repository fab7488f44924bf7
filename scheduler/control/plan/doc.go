// Package plan takes a cluster from where it is to where a plan wants it, in small steps that
// cost no request anything. It is a core: a plan, facts and results go in, steps come out. The
// controller carries them out, and so does the simulator.
//
//	Epochs.Decide --> (the partitioner makes a Plan) --> Rollout.Next --> Steps --> scheduler, backends
//	                                                        ^                            |
//	                                          SetGPU, SetModel, Done, Failed ------------+
//
// # Words
//
// A model is one version: "name/version". It is resident on a GPU when it is loaded and warm
// there, and routed to the sub-cluster that its requests go to. A GPU is seated in one
// sub-cluster, or free. Unplanned names the one that all GPUs of a type form where nobody plans.
//
// # What holds at every moment, whatever dies, fails, or comes late
//
//  1. A model is routed to a sub-cluster only while it is resident on every GPU that serves there,
//     and a GPU is seated only when it has all that is routed there. So loading comes before
//     routing, and a model that moves is served where it was until one step moves its requests,
//     those that wait too.
//  2. A GPU is in one sub-cluster at most. To change it, it is drained, loaded, seated.
//  3. No step takes a sub-cluster below its need: the needs of the models routed there, and one
//     GPU at least. A model that moves takes its need along. Where no order keeps every need,
//     for lack of GPUs, the step with the smallest shortage goes ahead, and says so (stuck.go).
//  4. The memory of a GPU has room for all that is resident or being loaded, and for the largest
//     dynamic size among them.
//  5. No more is under way at a time than Limits has.
//  6. A step that fails, or takes too long, is tried again a few times. Then the roll-out goes on
//     without the model, which stays where it was; or, if it is a GPU that fails on its way to
//     models that others serve, the GPU goes back. The plan is marked, with the reasons.
//  7. A version that another follows is served until that one is. If it fails, the old one stays.
//  8. All follows from the plan and the facts: a controller that begins anew at any point goes on.
//     A plan that overtakes another waits for the steps under way and takes back what is of no
//     use to it.
//  9. A model is measured before it is loaded by more than one GPU of its sub-cluster, on one that has
//     nothing to do if any can be spared (gauge.go).
//  10. It ends. Loads and measures towards the plan are finite in number and are not undone but for
//     memory that others need; each route, drain and seat brings a model or a GPU to its goal, or
//     from a failed goal back; goals change when GPUs come, go or fail, or are lent, a bounded
//     number of times; a step is tried a bounded number of times. What is on GPUs for nothing is
//     unloaded last, or when its memory is needed.
//
// # What the caller owes
//
// Facts of a GPU or a model, whenever they change and after a step about it took too long (nobody
// knows then what became of it), never older than the results handed in before. A step that is not
// begun within Step.Within is not begun at all. Only one Rollout gives orders at a time.
//
// # Cost
//
// Next looks at the sub-clusters that something has changed in: a pass over their GPUs' sets of
// models, words of 64 at a time. BenchmarkRollout has a cluster of 4,096 GPUs, 10,000 models and
// 64 sub-clusters.
//
// # Rejected
//
// A list of steps that is made once, with what each waits for: whatever fails, dies or is overtaken
// makes the list wrong, and mending it is the state machine that is here. Undoing a whole plan
// when a part of it fails: the rest is sound, and to undo it costs as many loads again.
package plan
