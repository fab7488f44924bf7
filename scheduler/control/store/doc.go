// Package store keeps the control plane's state in etcd: what is wanted of models, what
// became of them, who is there, what was measured, the plans, and who leads. It is the only
// door to etcd. The documents and their keys are package schema's.
//
//	controller --Models.Update, Observed.Writer, PutPlan, Campaign--> Store --gRPC--> etcd
//	           <--Models.Watch, State----------------------------------
//
// etcd is a server inside this process (Config.Data or Config.Ephemeral) or a cluster of its
// own (Config.Endpoints). Either way the same client speaks to it over a socket: to the one
// in this process over a Unix socket that only this user may open, or over a loopback
// address (Config.Listen). So there is one code path, and whatever can go wrong with the one
// can be tested with the other.
//
// Invariants:
//
//  1. A call ends: within Config.Timeout, or at once while etcd is known to be away
//     (AwayError). A write that failed with AwayError.Unknown may have happened.
//  2. Every write holds only while the schema is what this process found, and, given a Lead's
//     Guard, only while that leads: one transaction compares both. So neither a leader that
//     does not know yet that it was deposed nor a program of an earlier version overwrites
//     what its successor wrote.
//  3. A Watch tells the state, not the history: a document that changes ten times before it is
//     taken is told once. So what waits is bounded by the documents, however slow the
//     taker. What was removed is told too, also when etcd has forgotten it meanwhile
//     (compaction) or is another one (restored from a backup).
//  4. A Lead ends on this side before it can begin on another: its time counts from when
//     the last renewal was sent, less a margin.
//  5. After Close nothing of it runs, and an ephemeral store has left nothing behind.
//
// What requests need is not in here and does not wait for it: scheduler, frontends and
// backends never speak to etcd. When it is away they go on with what they were told last.
package store
