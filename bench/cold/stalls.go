package cold

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// stallEvery is how often a goroutine wakes to see how late it is, waitsEvery how often the threads' waits are read.
const (
	stallEvery = 5 * mono.Millisecond
	waitsEvery = mono.Second
)

// watchStalls tells of the times in which this process, or the machine, let goroutines and threads wait: what is late then
// says nothing of the scheduler.
func watchStalls(n *counter, counted mono.Time, ended <-chan struct{}) {
	tick := time.NewTimer(0)
	defer tick.Stop()
	waits, read := threadWaits(), mono.Now()
	for {
		due := mono.Now().Add(stallEvery)
		tick.Reset(stallEvery.Std())
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		now := mono.Now()
		n.woke(mono.Time(now.Sub(counted)), now.Sub(due))
		if now.Sub(read) >= waitsEvery {
			all := threadWaits()
			n.waited(mono.Time(now.Sub(counted)), max(0, all-waits)) // threads end, and their waits are forgotten
			waits, read = all, now
		}
	}
}

// threadWaits is how long the threads of this process could run and had no processor, since each began; 0 where
// the system does not tell.
func threadWaits() (all mono.Dur) {
	files, _ := filepath.Glob("/proc/self/task/*/schedstat") // the pattern is right
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			waited, _ := strconv.ParseInt(fields[1], 10, 64) // not a number: none
			all += mono.Dur(waited)
		}
	}
	return all
}
