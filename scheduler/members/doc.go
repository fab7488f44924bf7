// Package members knows who belongs to the cluster, and what everything is called:
// which frontends and backends are there, which models their devices have, which
// sub-cluster serves them, and which ids models, GPUs and frontends have. It is a core:
// events go in, effects come out, and the scheduler's server (package server) carries
// them out.
//
//	JoinFrontend, JoinBackend, Models, Stock, Service, Suspect, Retire, Idle, Leave, Order, Tick --> Cluster --> Effects, in order
//	                                                                                                    |
//	                              to frontends: Changes(since), to controllers: Facts(since) <----------+
//
// # How a backend joins
//
//	JoinBackend  it says what it has; its models by the digest of their list
//	  Want       the list is not known: one backend is asked, others that have it wait
//	Tick         it does not answer: it is refused, and the next one asked
//	Models       the list has come: all that wait for it are judged
//	  Refuse     and why; or
//	  AddModel, SetModel, MoveModel, RemoveModel    what is served becomes what its devices can serve
//	  AdmitBackend
//	  Keep       what its devices shall have, and what it is to repeat
//	  AddGPU     last: a batch may go there as soon as it is added
//
// A backend is judged whole before anything changes: one that is refused leaves no trace.
// (One that finds too few ids of models makes others that are away give theirs up, and is
// asked to come again.)
//
// # What a device has, and where it serves
//
// A device has the models of its backend's list, but for what Stock has told since: lists are
// shared by all that have the same, and only what differs is kept for each (stock). A unit is
// a device that is there. It belongs to a pool, which is a sub-cluster, or is nowhere. It is a
// member there when it has all that is routed there, and a GPU of the pool's engine while
// nothing is known against it. Each entry (a model in a pool) counts the members that have it.
//
// # Rules
//
//  1. A model is routed to a sub-cluster while every member has it, and a device is a member
//     while it has every model that is routed there. It is in one sub-cluster at most. (R)
//  2. The sub-cluster without a name is that of all devices of a type that nobody plans: what
//     all of its members have is served, and what only some have is not, which is said. A
//     backend that joins it must bring the models that the others there brought: else it is
//     refused, with the difference. One that is empty takes any set. While it serves, a
//     backend may change what it has; a model that one takes away is served no longer.
//  3. The control plane says what the others serve, and which devices they have: Order. What
//     would break rule 1 is refused, with a reason. A member that loses a model that is routed
//     there is none until it has it again, as long as another has it; else the model goes.
//  4. A model is one thing: name, version, platform, inputs, outputs and image of all its
//     backends are equal, or the newcomer is refused, with the field and both values. Of what
//     is told later the model is not taken, and the backend stays.
//  5. What may differ is reckoned with: the slowest profile of the members counts for each
//     batch size, and the smallest max_batch.
//  6. What may change (SLO, drop policy, labels) is what the newest configuration says: that of
//     the backend that read it last, here or not, whatever the order in which they joined.
//     So a rolling change is in force from its first backend on, and an old backend that
//     dials again does not take it back, as long as the model stays the same and this
//     scheduler lives. Labels are of the newest that is there. What the control plane sets
//     goes before all configurations.
//  7. A model is served by one sub-cluster. It keeps its id when it moves. Where nobody plans it
//     moves to another type when no device is left where it was.
//  8. A name belongs to one living process. Another process that takes it is refused
//     until the first has left; the same process on another link replaces the link.
//  9. A device that its backend takes out of service, or the scheduler suspects, is no GPU
//     until it is back. It keeps its id, and its backend stays, also when no device is left.
//  10. What was ordered outlives whom it was ordered to: a backend that comes back is told what
//     its devices lack, and they are members again when they have it. It outlives the
//     scheduler, too: backends repeat what is routed to their sub-clusters (catalog.Told), and
//     the newest word on a model holds. While nobody has all of that the devices wait; after
//     patience the fullest one begins.
//  11. A spare of a group is told by backends what its leader orders them (Overhear), and by the
//     leader what orders have set (TakeStanding): it has all where the leader has it.
//  12. Ids are dense and given again, but not at once: a GPU's belongs to (backend name,
//     device) for a minute after its end, so that a restart finds it; a frontend's, a model's
//     and a sub-cluster's rest before another has them.
//  13. Devices of one type are all paged, with pages of one size, or all resident (paged.go).
//     Rule 1 holds for both: every model is in the memory of each host.
//
// Pools, models, devices, frontends and backends are one state, and random histories of it are
// tested: that its parts agree, that rule 1 holds after each effect, that whoever follows the
// effects, the catalogue's changes or the facts knows the same, that each order has one answer,
// and that nobody is refused without a reason.
package members
