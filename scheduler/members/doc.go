// Package members knows who belongs to the cluster, and what everything is called:
// which frontends and backends are there, which models the backends bring, and which
// ids models, GPUs and frontends have. It is a core: events go in, effects come out,
// and the scheduler's server (package server) carries them out.
//
//	JoinFrontend, JoinBackend, Models, Service, Suspect, Retire, Leave, Tick --> Cluster --> Effects, in order
//	                                                                                |
//	                                                  Changes(since) <-- catalogue -+
//
// # How a backend joins
//
//	JoinBackend  it says what it has; its models by the digest of their list
//	  Want       the list is not known: one backend is asked, others that have it wait
//	Tick         it does not answer: it is refused, and the next one asked
//	Models       the list has come: all that wait for it are judged
//	  Refuse     and why; or
//	  AddModel, SetModel, RemoveModel    the pool's models become what all its backends can run
//	  AdmitBackend
//	  AddGPU     last: a batch may go there as soon as it is added
//
// A backend is judged whole before anything changes: one that is refused leaves no trace.
// (One that finds too few ids of models makes others that are away give theirs up, and is
// asked to come again.)
//
// # Rules
//
//  1. Devices of one type, on all backends, are a pool, and each of them has all of the
//     pool's models. A backend whose set of models differs from that of the others there
//     is refused, with the difference. A pool without backends takes any set.
//  2. A model is one thing: name, version, platform, inputs, outputs and image of all its
//     backends are equal, or the newcomer is refused, with the field and both values.
//  3. What may differ is reckoned with: the slowest profile counts for each batch size,
//     and the smallest max_batch.
//  4. What may change (SLO, drop policy, labels) is what the newest configuration says:
//     that of the backend that read it last, here or not, whatever the order in which
//     they joined. So a rolling change is in force from its first backend on, and an old
//     backend that dials again does not take it back, as long as the models stay the same
//     and this scheduler lives. Labels are of the newest that is there.
//  5. A model belongs to one pool. It may move when no backend of its pool is left.
//  6. A name belongs to one living process. Another process that takes it is refused
//     until the first has left; the same process on another link replaces the link.
//  7. A device that its backend takes out of service, or the scheduler suspects, is no GPU
//     until it is back. It keeps its id, and its backend stays a member, also when no
//     device is left.
//  8. Ids are dense and given again, but not at once: a GPU's belongs to (backend name,
//     device) for a minute after its end, so that a restart finds it; a frontend's and a
//     model's rest before another has them.
//
// Pools, models, GPUs, frontends and backends are one state, and random histories of it are
// tested: that its parts agree, that whoever follows the effects or the catalogue's changes
// knows the same, and that nobody is refused without a reason.
package members
