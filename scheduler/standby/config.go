package standby

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Config says who a scheduler is in its group.
type Config struct {
	Number  uint16     // of this member: no other has it
	Life    uint64     // of this process, as in its Hello
	Places  int        // addresses of the group that the shell dials; its own may be among them
	Beat    mono.Dur   // between heartbeats, of a leader that serves (default 1 ms)
	Silence mono.Dur   // after which a leader is suspected, at least (default 5 ms)
	Unheard int        // what Unheard said of the one before in this process; 0: there was none
	Heard   wire.Epoch // what Heard said of it; 0: likewise
	Wall    uint64     // unix time in ns at mono instant 0, read once: jumps of the clock later are nothing to reigns
}

const (
	// idleBeats is how many times rarer beats are where nothing was asked for a while (busyFor),
	// and those of spares.
	idleBeats = 100
	busyFor   = mono.Second

	// A leader is suspected when silenceBeats of its beats are missing, and latenessTimes what they were late
	// lately: a machine that stands still for some ms now and then is no dead one. latenessMost bounds what counts of
	// a beat's lateness, which is half forgotten after some latenessMemory beats.
	silenceBeats   = 5
	latenessTimes  = 3
	latenessMost   = 20 * mono.Millisecond
	latenessMemory = 8192

	// BeatMost is the longest span between heartbeats of a leader that serves.
	BeatMost = everyMax / idleBeats

	// everyMax bounds what a peer may say of its next beat, and so how long it is believed.
	everyMax = 500 * mono.Millisecond

	// startWait is how long a start waits for the group before it claims anything.
	startWait = mono.Second

	// A scheduler that was overtaken by one that it does not hear waits for that one, longer each
	// time: there is a leader, and only the way to it is cut.
	unheardMin = 250 * mono.Millisecond
	unheardMax = 4 * mono.Second
	// One that it overtook itself for longer than this was no trouble.
	steadyReign = 10 * mono.Second

	// candidateWait is how long a candidate that is heard has, before another one tries.
	candidateWait = 100 * mono.Millisecond

	// turnWait is what lies between the claims of spares that see the same.
	turnWait = 3 * mono.Millisecond

	// A leader's silence is looked at doubts times, doubtWait apart, before it counts: what waits
	// in our own sockets is read meanwhile.
	doubts    = 3
	doubtWait = mono.Millisecond

	// A process that finds itself late by more than lateMin stood still. It suspects nobody for as
	// long as it stood, at most lateMax, at most lateTimes in a row: a busy machine is late always.
	lateMin   = mono.Millisecond
	lateMax   = 100 * mono.Millisecond
	lateTimes = 3

	// graceWait is how long a candidate that one backend has promised waits for the others: what
	// they run should be known before requests come.
	graceWait = 2 * mono.Millisecond

	// yieldWait is how long a leader that steps down waits for its successor.
	yieldWait = mono.Second

	// fewWait is how long a spare must have had more than twice the leader's backends until the
	// leader yields to it.
	fewWait = 300 * mono.Millisecond

	// peersMax bounds the processes of a group that are known at a time.
	peersMax = 64

	// reignMax is above all reigns (the year 2262): a message that says more is wrong.
	reignMax wire.Epoch = 1 << 63
)

func (c *Config) fill() {
	if c.Beat <= 0 {
		c.Beat = mono.Millisecond
	}
	c.Beat = min(c.Beat, BeatMost)
	if c.Silence <= 0 {
		c.Silence = 5 * mono.Millisecond
	}
}
