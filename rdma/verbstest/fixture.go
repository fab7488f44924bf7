package verbstest

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Fixture is what the suite needs: two ends that reach each other.
type Fixture struct {
	A, B Side
	// Leaks says what was left open, nil: nothing. A nil Leaks: nobody can know.
	Leaks func() error
}

// Side is one end. Both may be the same device: it is opened once for each.
type Side struct {
	Verbs    rdma.Verbs
	Device   string
	Port     int
	GIDIndex int // not looked at where the port is InfiniBand's
}

// patience is the limit of everything that must happen at all. A real device
// takes its own time to give a peer up.
const patience = 20 * mono.Second

// Run passes a Verbs through all cases.
func Run(t *testing.T, make func(t *testing.T) Fixture) {
	cases := []struct {
		name string
		run  func(*testing.T, Fixture)
	}{
		{"what a device says", testAttr}, {"unknown device", testUnknownDevice},
		{"connect", testConnect}, {"close order", testCloseOrder},
		{"big READ", testReadBig}, {"READs in order", testReadsInOrder}, {"READ scattered", testReadScattered},
		{"ping-pong", testPingPong}, {"gather", testGather},
		{"WRITE", testWrite}, {"WRITE with immediate", testWriteImm}, {"empty WRITE with immediate", testWriteImmEmpty},
		{"selective signalling", testSelectiveSignalling}, {"burst", testBurst}, {"both ways", testBothWays},
		{"many posters", testManyPosters}, {"shared CQ", testSharedCQ}, {"queues go round", testQueuesGoRound},
		{"receive queue full", testRecvQueueFull}, {"send queue full", testSendQueueFull},
		{"wrong remote key", testWrongRKey}, {"stale remote key", testStaleRKey}, {"remote address outside", testRemoteOutside},
		{"READ without right", testReadWithoutRight}, {"WRITE without right", testWriteWithoutRight},
		{"wrong local key", testWrongLKey}, {"READ into read-only memory", testReadIntoReadOnly}, {"message too long", testTooLong},
		{"RNR exceeded", testRNRExceeded}, {"RNR patience", testRNRPatience}, {"peer closed", testPeerClosed},
		{"flush", testFlush}, {"posts after Fail", testPostsAfterFail},
		{"channel event", testChannelEvent}, {"channel timeout", testChannelTimeout}, {"channel wake", testChannelWake},
		{"no lost wake-up", testNoLostWakeUp},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ignore := goleak.IgnoreCurrent()
			f := make(t)
			t.Cleanup(func() { // runs after the case's own: all is closed
				if f.Leaks != nil {
					if err := f.Leaks(); err != nil {
						t.Errorf("left open: %v", err)
					}
				}
				goleak.VerifyNone(t, ignore)
			})
			c.run(t, f)
		})
	}
}
