package server

import (
	"fmt"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// TestJoiningGPUKeepsItsBatches: a GPU that joins while requests are ripe may be granted
// before its backend's admission is over. No batch may be thrown away then: its requests
// would expire, and the GPU would be one batch short for the rest of its life. Nor may an
// order come before the catalogue that names its model (peer.Receive looks).
func TestJoiningGPUKeepsItsBatches(t *testing.T) {
	s, n := newServer(t, nil)
	backendPeer(t, n, "stays", 1, "m")
	f := frontendPeer(t, n)
	f.wait("ready", func() bool { return f.entry("m").Ready })
	id := wire.RequestID(0)
	for round := range 40 {
		for range 16 * 12 { // more full batches than the one GPU takes: ripe when the others come
			id++
			f.submit(id, 0, 300*mono.Millisecond)
		}
		b := backendPeer(t, n, fmt.Sprint("joins", round%2), 8, "m")
		b.wait("it has batches", func() bool { return len(b.batches) > 0 })
		f.wait("all requests are answered or dropped", func() bool { return s.open() == 0 })
		b.link.Close(nil)
		f.wait("it has left", func() bool { return f.entry("m").GPUs == 1 })
	}
}
