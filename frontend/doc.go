// Package frontend is the Go client library: an application imports it, dials
// the scheduler, and asks models for inferences. The HTTP ingress is built on
// the same client.
//
//	client, err := frontend.Dial(ctx, frontend.Options{Scheduler: "tcp:127.0.0.1:9000"})
//	reply, err := client.Infer(ctx, frontend.Request{Model: "digits-cnn", Image: png})
//
//	Infer --> check, preprocess --> slab --> Submit --> scheduler
//	backend --READ--> slab;  backend --Output--> Infer returns
//
// # Promises
//
//  1. Every request is answered exactly once: a Response or an *Error. If
//     nothing comes by its deadline, the client answers by itself.
//  2. Nothing waits without bound: a full arena or table is ErrOverloaded, a
//     lost scheduler is ErrUnavailable, both at once. The client reconnects by
//     itself.
//  3. What is given in a Request may be reused as soon as Infer or InferAsync
//     has returned, but for an image that was given away (Request.ImageGiven).
//     Data in a Response belongs to the caller, until it releases the Response
//     (which it need not); Shape is shared with the catalogue: read only.
//  4. Steady traffic makes no garbage: see InferAsync and Response.Release.
//
// # Several schedulers
//
// A cluster may have several schedulers, each with backends and models of its own. A client is
// linked to all of them (Options.Schedulers), and a request goes to the one that serves its
// model (lookup.go). It is ready with one: the models of one that is away are ErrUnavailable, and
// so is what no other one has, until it has been reached; the other's requests do not notice.
// What is under way to a scheduler while its model moves to another is sent on.
//
// # Groups of schedulers
//
// A scheduler may have spares: a group, of which one leads ("A+B" in Options.Scheduler, or as one
// of Options.Schedulers). A client is linked to all of a group, and requests go to the one that says
// that it leads, of the highest reign. When another one takes over, what is open and unanswered is
// sent to it, the earliest deadline first, with the deadlines that it had: its inputs still lie in
// the arena. Nothing fails for the end of a leader's link: requests wait, up to their deadlines, for
// whoever leads next. Outputs are taken from whichever backend brings them first; refusals from
// the leader alone. Meanwhile the catalogue of the last leader answers, so nothing seems less ready at a
// take-over; a group without a leader for 10 s is away (group.go, takeover.go).
//
// # Versions
//
// A request that names a version gets that one. One that names none gets a version by the
// name's shares, which the control plane sets: exactly, not by chance (see shares.go). Without
// shares the highest version that is ready answers. Response.Version says which it was.
//
// # Deadlines
//
// The deadline is Request.Timeout from now, else the model's SLO from now; an
// earlier deadline of the context tightens it. A later one does not loosen it:
// a deferred scheduler really uses the time that it is given, and a context of
// ten seconds is a limit on patience, not a wish to wait.
package frontend
