package rdmae2e

import (
	"testing"
	"time"
)

// kill -9 of who is READ: what was under way ends, and nothing of the link is left.
func TestServerKilledMidRead(t *testing.T) {
	need(t)
	r := newReader(t)
	open := 0
	var alone held
	for round := range 3 {
		p := startPeer(t, setting{Arena: 8 << 20})
		objects := p.tell(order{Do: "stock", Count: 16, Size: objectSize}).Objects
		r.dial(p, 0)
		stop := r.hammer(objects)
		time.Sleep(time.Duration(100+17*round) * time.Millisecond)
		begin := time.Now()
		p.kill()
		err := r.awaitEnd()
		took := time.Since(begin)
		y := stop()
		r.link = nil
		open += y.closed
		say("kill -9 of who is READ: %v after %v; %v", err, took.Round(time.Millisecond), &y)
		if took > hangMax || y.slowest > hangMax || y.wrong+y.other > 0 {
			t.Errorf("%v after %v; %v", err, took, &y)
		}
		if now := steady(t); round == 0 {
			alone = now
		} else if now != alone {
			t.Errorf("round %d: without a peer the kernel holds %v, in the first round %v", round, now, alone)
		}
	}
	if open == 0 {
		t.Error("no READ was under way at any of the kills")
	}
}

// kill -9 of who READs: the one that is READ lives on, and nothing of the link is left.
func TestReaderKilledMidRead(t *testing.T) {
	need(t)
	p := startPeer(t, setting{Arena: 8 << 20})
	objects := p.tell(order{Do: "stock", Count: 16, Size: objectSize}).Objects
	r := newReader(t) // first and last, to see that the peer serves
	var y tally
	r.dial(p, 0)
	r.read(objects, &y)
	r.hangUp()
	alone := steady(t)
	var memory int
	for round := range 3 {
		q := startPeer(t, setting{Arena: 1 << 20})
		q.tell(order{Do: "hammer", Address: p.address, Objects: objects})
		time.Sleep(time.Duration(100+17*round) * time.Millisecond)
		reads := q.tell(order{Do: "reads"}).Reads
		begin := time.Now()
		q.kill()
		settle(t, "who READ is dead", alone)
		took := time.Since(begin)
		if round == 0 {
			memory = rss(t, p.pid())
		}
		say("kill -9 of who READs: %d READs begun; the kernel holds as much as before after %v", reads, took.Round(time.Millisecond))
		if took > hangMax || reads < 16 {
			t.Errorf("%d READs; it took %v until all was given back", reads, took)
		}
	}
	if now := rss(t, p.pid()); now > memory+32 {
		t.Errorf("memory of who is READ: %d MiB, after the first kill %d", now, memory)
	}
	r.dial(p, 0)
	r.read(objects, &y)
	if y.right != 2*len(objects) {
		t.Errorf("%v", &y)
	}
	r.hangUp()
	p.leave()
}
