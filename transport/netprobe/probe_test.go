//go:build linux && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package netprobe_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/netprobe"
)

const childEnv = "SYMPHONY_NETPROBE_CHILD"

// Without privilege Open says so in one line that tells what to do.
func TestOpenUnprivileged(t *testing.T) {
	if os.Getenv(childEnv) != "" || os.Getuid() != 0 {
		_, err := netprobe.Open(netprobe.Options{})
		var u *netprobe.UnsupportedError
		if !errors.As(err, &u) || !errors.Is(err, errors.ErrUnsupported) {
			t.Fatalf("error %v of %T, want an *UnsupportedError", err, err)
		}
		fmt.Printf("error: %v\n", err)
		return
	}
	c := exec.Command("/proc/self/exe", "-test.run=^TestOpenUnprivileged$", "-test.count=1")
	c.Env = []string{childEnv + "=1"}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	if !strings.HasPrefix(line, "error: kernel probe of round-trip times not available: ") || !strings.Contains(string(out), line+"\nPASS") {
		t.Errorf("not one line:\n%s", out)
	}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err == nil && !strings.Contains(line, "CAP_BPF") && !strings.Contains(line, "locked down") {
		t.Errorf("does not say what to do: %s", line)
	}
	t.Log(line)
}

// checkLeaks compares goroutines at the test's end, after all other cleanups.
func checkLeaks(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
}

// traffic is an exchange of messages: size bytes there, in one
// piece or two halves, answered after the peer has thought.
type traffic struct {
	size, answer int
	halves, gap  time.Duration   // between the halves (0: one piece), and after the answer
	think        []time.Duration // in turn
	busy         bool            // thinks before it reads
}

// run exchanges until the test ends.
func (tr traffic) run(t *testing.T, near, far *net.TCPConn) {
	var all sync.WaitGroup
	t.Cleanup(func() {
		near.Close()
		far.Close()
		all.Wait()
	})
	all.Go(func() {
		buf := make([]byte, max(tr.size, tr.answer))
		for i := 0; ; i++ {
			think := tr.think[i%len(tr.think)]
			if tr.busy {
				time.Sleep(think)
				think = 0
			}
			if _, err := io.ReadFull(far, buf[:tr.size]); err != nil {
				return
			}
			time.Sleep(think)
			if _, err := far.Write(buf[:tr.answer]); err != nil {
				return
			}
		}
	})
	all.Go(func() {
		buf := make([]byte, max(tr.size, tr.answer))
		for {
			first := tr.size
			if tr.halves > 0 {
				first /= 2
			}
			near.Write(buf[:first])
			time.Sleep(tr.halves)
			near.Write(buf[first:tr.size])
			if _, err := io.ReadFull(near, buf[:tr.answer]); err != nil {
				return
			}
			time.Sleep(tr.gap)
		}
	})
}

// await polls until ok; last is shown when it never comes.
func await[T any](t *testing.T, want string, get func() T, ok func(T) bool) T {
	t.Helper()
	end := time.Now().Add(30 * time.Second)
	for {
		v := get()
		if ok(v) {
			t.Logf("%s: %+v", want, v)
			return v
		}
		if time.Now().After(end) {
			t.Fatalf("not in 30 s: %s; last %+v", want, v)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// The kernel's histogram follows a delay that is put beneath TCP, up and down.
func TestFollowsDelay(t *testing.T) {
	checkLeaks(t)
	p := open(t, netprobe.Options{Window: mono.Second})
	b := newLab(t)
	near, far := b.connect(t)
	w, err := p.Watch(near)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	traffic{size: 8 << 10, answer: 64, gap: time.Millisecond, think: []time.Duration{0}}.run(t, near, far)
	quiet := func(st netprobe.Stats) bool { return st.Samples >= 10 && st.AckP99 < 6*mono.Millisecond }
	await(t, "small at first", w.Stats, quiet)
	b.delay.Store(int64(5 * time.Millisecond))
	await(t, "5 ms each way: p99 above 8 ms", w.Stats, func(st netprobe.Stats) bool { return st.AckP99 > 8*mono.Millisecond })
	await(t, "5 ms each way: all of the window", w.Stats, func(st netprobe.Stats) bool {
		return st.Least > 8*mono.Millisecond && st.SmoothedP99 > 8*mono.Millisecond && st.DelayBound() > 4*mono.Millisecond
	})
	b.delay.Store(0)
	await(t, "small again", w.Stats, quiet)
}

// A peer that takes its time to answer is not a slow network: its answers
// bring the acknowledgement along, late, and where it does not answer its
// timer sends one, later. None of that may raise the bound.
func TestWaitingIsNotDelay(t *testing.T) {
	checkLeaks(t)
	const ms = time.Millisecond
	p := open(t, netprobe.Options{Window: 2 * mono.Second})
	b := newLab(t)
	for _, c := range []struct {
		name string
		tr   traffic
		seen func(netprobe.Stats) bool
	}{
		{"answers after 30 ms", traffic{think: []time.Duration{30 * ms}},
			func(st netprobe.Stats) bool { return st.Answers >= 20 && st.SmoothedP99 > 20*mono.Millisecond }},
		// The quick answer makes the peer's kernel expect another to put the
		// acknowledgement on; the slow one lets its timer of 40 ms run out.
		{"every second answer after 100 ms", traffic{think: []time.Duration{0, 100 * ms}},
			func(st netprobe.Stats) bool { return st.Delayed >= 5 }},
		// A peer too busy to read; its timer started with the first half, so the
		// second waited 25 ms. (More than 88 bytes would be acknowledged at once.)
		{"halves read after 100 ms", traffic{think: []time.Duration{0, 100 * ms}, halves: 15 * ms, busy: true},
			func(st netprobe.Stats) bool { return st.Delayed >= 5 }},
		// Here the second half brings the acknowledgement of both, at once.
		{"halves", traffic{think: []time.Duration{0}, halves: 25 * ms},
			func(st netprobe.Stats) bool { return st.Samples >= 20 && st.SmoothedP99 > 15*mono.Millisecond }},
	} {
		near, far := b.connect(t)
		w, err := p.Watch(near)
		if err != nil {
			t.Fatal(err)
		}
		c.tr.size, c.tr.answer = 40, 40
		c.tr.run(t, near, far)
		// Awaited too: a busy machine may delay for real, but not all the time.
		await(t, c.name+", and no delay", w.Stats, func(st netprobe.Stats) bool {
			return c.seen(st) && st.DelayBound() < 12*mono.Millisecond
		})
		w.Close()
		near.Close()
		far.Close()
	}
}

// Full is an answer, closing makes room, and everything survives its end.
func TestFullAndClosed(t *testing.T) {
	checkLeaks(t)
	p := open(t, netprobe.Options{WatchesMax: 1})
	b := newLab(t)
	near, far := b.connect(t)
	w, err := p.Watch(near)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Watch(far); !errors.Is(err, netprobe.ErrFull) {
		t.Errorf("second of one: %v", err)
	}
	if n, refused := p.Counts(); n != 1 || refused != 1 {
		t.Errorf("%d watched, %d refused", n, refused)
	}
	w.Close()
	w.Close()
	if w, err = p.Watch(far); err != nil {
		t.Fatalf("after making room: %v", err)
	}
	far.Close()
	if _, err := p.Watch(far); !errors.Is(err, net.ErrClosed) {
		t.Errorf("of a closed connection: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	w.Stats()
	w.Close()
	if _, err := p.Watch(near); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
