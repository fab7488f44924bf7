// Package standby decides which scheduler of a group drives the GPUs: who leads, who takes over
// from it, and whom backends and frontends listen to. It is the protocol between them as three
// cores, one for each side: Scheduler, Backend, Frontend. Events go in, effects come out; shells
// carry them out, and a simulation drives the same cores through networks that fail in all ways.
//
//	schedulers of the group: links, Beat --+              +--> SendBeat, Lead, Use, Yield
//	                 people, Tick, Busy ---+-> Scheduler --+
//	          backends: links, Promised ---+              +--> Ask ---> Backend ---> Fence, Tell
//	                                               Lead ------> Frontend: send all again, to whom
//
// # The group
//
// A group's schedulers are equal. One is the leader, the others are spares: whole schedulers that
// know everything from first hand, since frontends and backends are linked to all, and may not
// drive any GPU. A reign is one scheduler's time as the leader; its number (wire.Epoch) is in each
// order. A life is a process's time; links say whose they are by it.
//
// # How one takes over
//
//  1. The leader sends each spare a Beat every millisecond, and in each the span until the next:
//     where nothing was asked for a while beats are rarer, and nobody is alarmed. Spares send
//     theirs rarely: they say who is there, with which number and how many backends.
//  2. A spare suspects the leader when its process is known to have ended (all links are gone and its address
//     refuses, or another process is there now), or when five of its beats stay out, and
//     three times what they were late lately (a machine that stands still now and then is no dead one).
//     Silence is looked at three times, a millisecond apart, and the leader is told each time: beats may
//     wait in our own socket, or for its timer. A process that finds that it stood still itself suspects
//     nobody for as long.
//  3. It claims a reign above all that it heard of, as a candidate, says so in a Beat, and asks the
//     backends for their promises. Of several spares the first in turn does; two at once are harmless.
//  4. A backend promises a reign that is higher than what it promised before, and from that moment takes
//     no order of an earlier one. What has not begun there is dropped, what runs goes on, and
//     the candidate is told of it (Running) before the promise. It tells the others, too: the
//     leader that it is overtaken, spares whom it obeys.
//  5. With the promises of all that it asked, or 2 ms after the first, the candidate leads: it tells
//     frontends, which send what is open again, and uses the GPUs of those that have promised.
//     Others are used when they promise.
//  6. A leader that learns of a higher reign, from a backend that promised it or from the Beat of
//     one that leads, yields at once.
//
// A planned switch begins at 3: people promote a spare, or ask the leader to step down, and it
// asks a spare (Beat.Yields) and leads on until it is overtaken. Backends then keep what is queued.
//
// # Who is believed to lead
//
// A spare that hears a leader follows it. One that hears none waits, for there may be one beyond
// a cut: at the start a second; after it was overtaken by a reign whose scheduler it does not hear 250 ms,
// each time twice as long, up to 4 s, so that two that cannot hear each other do not take the
// backends from each other for ever. It need not wait where it knows better: every member of the
// group is accounted for and none leads, or all backends say that the scheduler which they obey
// is gone. One that is linked with no backend claims nothing until the whole group is accounted for.
// One that was overtaken and begins anew claims above what it had heard of, so even alone it gives
// backends a second to say whom they obey.
// A leader of few backends yields to a spare that has had more than twice as many for 300 ms.
//
// # Rules
//
//  1. A backend's promise never falls, and it takes orders only of the reign that was promised
//     last, over the link that asked last. All safety is this: whatever schedulers
//     believe, suspect or do late, a GPU has one driver.
//  2. No reign is used twice. It is the wall clock (read once, at the start) or, where that is
//     behind, above all that were heard of by a step of the process's own; the low 16 bits are the member's
//     number. Should two be equal all the same, backends refuse the life that comes second.
//  3. A promise counts for the reign that it names: late ones, and those of other reigns, are
//     news, no more. The exception is a spare whose last claim is still the highest reign known: a late
//     promise of that makes it lead.
//  4. A scheduler uses a GPU between its backend's promise and the end of that link, or Yield.
//  5. A reign that was lost is not taken up again: who leads anew has a new reign. So whoever
//     hears (link, reign) knows which requests that scheduler may still have.
//  6. A leader is never nobody's: it has a backend's promise when it begins, or the whole group
//     is accounted for. One without GPUs does not end the reign of one that has them.
//  7. What comes on a link that has ended, or that a later link of the same process replaced, is not
//     heard; for beats, of which two links may bring some at a time, a life's lower reign is not.
//  8. Wall clocks are only ever compared as numbers of reigns: an hour's difference makes one host's
//     reigns higher, which decides who wins where two lead, and nothing else.
//
// Rules 1 to 3 hold at all times, in any network. That somebody leads, all backends obey it and
// all frontends follow it holds within a second after links are up again.
//
// # Ownership
//
// Each value has one owner, which calls one method at a time. Effects belong to the caller and
// are carried out in order. Nothing is kept of what is handed in. Spans are mono.Dur; instants are
// of the caller's clock and cross no link.
//
// # Refused
//
//   - Votes of schedulers (Raft, a lease in etcd). A majority of three needs two to live and
//     hear each other; here the last of any number goes on. And a lease keeps GPUs idle until it
//     has run out, where a promise is had in a round trip. What votes are for, one driver, the
//     backends hold by themselves: they are the GPUs.
//   - Backends that refuse while they hear their scheduler. It would spare a switch where only
//     schedulers are cut off from each other, and would keep GPUs with a scheduler that stands still for
//     as long as transports believe in it (a second or two).
//   - Asking all backends, and leading with a majority. GPUs that cannot be had must not keep the others idle.
//   - A fixed order of members, the first of which takes back the lead when it returns: each restart
//     would cost two switches.
//   - A leader that renews its reign instead of yielding when a backend promised a higher one. It
//     would keep requests, but then (link, reign) would no longer say what it has.
package standby
