package engine

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// What the loops tell is what the sink is told: each request once, in a batch or as a drop, and each
// batch's report.
func TestWatchedIsWhatHappened(t *testing.T) {
	for name, cfg := range map[string]Config{"1 loop": {}, "3 loops": {ModelLoops: 3}} {
		t.Run(name, func(t *testing.T) {
			cfg.GPUsMax, cfg.RequestsMax = 16, 1<<12
			d := newDevices(3, 0.2)
			e, _ := start(t, cfg, d, 5, 2)
			e.Watch(1 << 20)
			accepted := offer(e, 5, 2500, 400*time.Millisecond)
			events := watchAll(t, e, accepted)
			e.Stop()
			d.checkOnce(t, accepted)
			batches, answered, queues := map[wire.BatchID]bool{}, map[wire.RequestID]int{}, 0
			for _, ev := range events {
				if ev.Pool != 7 || ev.At == 0 {
					t.Fatalf("pool %d at %v: %+v", ev.Pool, ev.At, ev)
				}
				switch ev.Kind {
				case watch.Batch:
					batches[ev.Batch] = true
					for _, r := range ev.Requests {
						answered[r.Key.ID]++
						if r.Deadline.Sub(r.Arrival) != 60*mono.Millisecond {
							t.Fatalf("request %+v, want an SLO of 60 ms", r)
						}
					}
				case watch.Done:
					if !batches[ev.Batch] || ev.Until == 0 || ev.Fetch != 50*mono.Microsecond {
						t.Fatalf("a report of a batch that was not told: %+v", ev)
					}
					delete(batches, ev.Batch)
				case watch.Drop:
					answered[ev.Request.Key.ID]++
					if ev.Request.Came < ev.Request.Arrival || ev.Reason == wire.ReasonNone || ev.Margin == 0 {
						t.Fatalf("drop %+v", ev)
					}
				case watch.Queue:
					queues++
				case watch.Missed:
					t.Fatalf("%d events were missed", ev.Size)
				}
			}
			for i := range accepted {
				if answered[wire.RequestID(i+1)] != 1 {
					t.Fatalf("request %d is told of %d times, want once", i+1, answered[wire.RequestID(i+1)])
				}
			}
			if len(batches) != 0 || queues == 0 {
				t.Errorf("%d batches without a report, %d candidates", len(batches), queues)
			}
		})
	}
}

// watchAll reads what is told until all requests are told of, and all batches' reports.
func watchAll(t *testing.T, e *Engine, accepted int) (events []watch.Event) {
	t.Helper()
	open, requests, every := 0, 0, 1
	for begin := time.Now(); time.Since(begin) < 20*time.Second; time.Sleep(time.Millisecond) {
		var told watch.Told
		if every = e.Watched(7, 1<<20, &told); every != 1 {
			t.Fatalf("one in %d was told, want all", every)
		}
		now := eventsOf(&told)
		events = append(events, now...)
		for _, ev := range now {
			switch ev.Kind {
			case watch.Batch:
				open++
				requests += len(ev.Requests)
			case watch.Done:
				open--
			case watch.Drop:
				requests++
			}
		}
		if requests >= accepted && open == 0 {
			return events
		}
	}
	t.Fatalf("after 20 s %d of %d requests are told of, and %d batches lack a report", requests, accepted, open)
	return nil
}

// eventsOf are the events that were told.
func eventsOf(told *watch.Told) (all []watch.Event) {
	for e := range told.All {
		e.Requests = slices.Clone(e.Requests)
		all = append(all, *e)
	}
	return all
}

// A ring that nobody reads fills, counts what is missed, and goes on when it was read; after a
// round or two of it nothing is torn.
func TestTapFull(t *testing.T) {
	tap := newTap(0)
	run, told := shard.Run{Model: 3, GPU: 4}, 0
	for id := wire.BatchID(1 << 16); told < 5*tapLeast; id += 1 << 16 {
		tap.done(mono.Time(id), &run, &Done{Batch: id, Start: 1, End: 2, Fetch: 3, Ran: 5})
		if told++; told%(tapLeast/5) != 0 {
			continue
		}
		events := eventsOf(&watch.Told{Words: tap.read(nil)})
		missed := tap.missed.Swap(0)
		if len(events)+int(missed) != tapLeast/5 || missed == 0 {
			t.Fatalf("%d events and %d missed, want %d in all", len(events), missed, tapLeast/5)
		}
		for _, e := range events {
			if e.Kind != watch.Done || e.At != mono.Time(e.Batch) || e.Model != 3 || e.GPU != 4 || e.Exec != 1 || e.Until != 2 || e.Fetch != 3 || e.Size != 5 {
				t.Fatalf("torn: %+v", e)
			}
		}
	}
}

// With more than a reader takes a smaller part is told, of batches and of their reports alike; with little
// all is told again.
func TestTapAdapts(t *testing.T) {
	tap := newTap(1 << 20)
	serial, run := wire.BatchID(0), shard.Run{}
	turn := func(n int) (batches, dones, every int) {
		for range n {
			serial += 1 << 16
			d := shard.Dispatch{Batch: serial}
			if tap.chosen(serialOf(d.Batch)) {
				tap.batch(1, &d)
			}
			tap.done(2, &run, &Done{Batch: d.Batch})
		}
		words := tap.read(nil)
		for _, e := range eventsOf(&watch.Told{Words: words}) {
			if e.Kind == watch.Batch {
				batches++
			} else {
				dones++
			}
		}
		weight := 0
		for record := range watch.Records(words) {
			weight += weightOf(record)
		}
		return batches, dones, tap.adapt(weight, 100)
	}
	for range 10 {
		turn(800)
	}
	batches, dones, every := turn(800)
	if batches != dones || batches > 50 || batches < 10 || batches*every != 800 {
		t.Errorf("%d batches and %d reports, one in %d: want about 50 or fewer, alike", batches, dones, every)
	}
	for range 20 {
		turn(2)
	}
	if batches, _, every = turn(2); batches != 2 || every != 1 {
		t.Errorf("%d of 2 batches, one in %d: want all", batches, every)
	}
}

// Of candidates that come and go with each request few are told, and never that there is one for longer than there
// was.
func TestCandidatesAreToldNowAndThen(t *testing.T) {
	tap := newTap(0)
	told, shown := 0, false
	model := wire.ModelID(5)
	tell := func(now mono.Time, waiting bool) {
		if now >= tap.span {
			tap.begins(now)
		}
		if tap.news(model, waiting) {
			tap.noteQueue(model, waiting)
			told++
			shown = waiting
		}
		if shown && !waiting {
			t.Fatalf("at %v a candidate is shown that is gone", now)
		}
	}
	const each = mono.Millisecond
	now := mono.Time(mono.Second)
	for range 1000 { // a second
		tell(now, true)
		now = now.Add(each / 2)
		tell(now, false)
		now = now.Add(each / 2)
	}
	if told != 10 { // of five
		t.Errorf("%d events of 1000 candidates within a second, want 10", told)
	}
	for range 1000 { // one that grows
		tell(now, true)
		now = now.Add(each)
	}
	if told != 10+5 {
		t.Errorf("%d events of a candidate that grows for a second, want 5", told-10)
	}
	for model = 60; model < 200; model++ { // a bit of each model is its own
		told, shown = 0, false
		tell(now, true)
		tell(now, true)
		tell(now, false)
		tell(now, false)
		if told != 2 {
			t.Fatalf("%d events of model %d, want that there is a candidate and that there is none", told, model)
		}
	}
}

// Watching may begin and end at any time.
func TestWatchOnAndOff(t *testing.T) {
	d := newDevices(3, 0)
	e, _ := start(t, Config{GPUsMax: 16, RequestsMax: 1 << 12}, d, 2, 2)
	for range 5 {
		e.Watch(1)
		for begin, told := time.Now(), 0; told == 0; {
			if time.Since(begin) > 20*time.Second {
				t.Fatal("nothing is told for 20 s")
			}
			offer(e, 2, 1000, 5*time.Millisecond)
			var some watch.Told
			e.Watched(0, 1<<10, &some)
			told = some.Len()
		}
		e.Watch(0)
		var none watch.Told
		if every := e.Watched(0, 1<<10, &none); none.Len() != 0 || every != 1 {
			t.Errorf("%d events, one in %d, while nobody watches", none.Len(), every)
		}
	}
	e.Stop()
	d.wait()
}

// BenchmarkTap is what a watched loop pays for a batch of eight and its report, read now and then.
func BenchmarkTap(b *testing.B) {
	tap := newTap(1 << 20)
	d := shard.Dispatch{Requests: make([]batching.Request, 8)}
	run, free := shard.Run{}, uint64(0)
	b.ReportAllocs()
	for i := range b.N {
		d.Batch = wire.BatchID(i << 16)
		if tap.chosen(serialOf(d.Batch)) {
			tap.batch(1, &d)
		}
		tap.head.Store(tap.at)
		tap.done(2, &run, &Done{Batch: d.Batch})
		if tap.at-free > tapLeast {
			free = tap.at
			tap.tail.Store(tap.at) // as if somebody had read
		}
	}
}

// BenchmarkTapCandidates is what a watched loop pays for candidates that come and go, of 37 models, 2,000 each a second.
func BenchmarkTapCandidates(b *testing.B) {
	t := newTap(1 << 20)
	l := &modelLoop{shard: shard.New(shard.Config{})}
	l.out.Candidates = make([]shard.Candidate, 1)
	now, free := mono.Time(mono.Second), uint64(0)
	b.ReportAllocs()
	for i := range b.N {
		c := &l.out.Candidates[0]
		c.Model = wire.ModelID(i / 2 % 37)
		c.Candidate.Size = int32(1 - i%2)
		now = now.Add(250 * mono.Microsecond)
		l.tellLoop(t, now)
		if t.at-free > tapLeast {
			free = t.at
			t.tail.Store(t.at) // as if somebody had read
		}
	}
}

// A record that goes over the ring's end is whole, and one that is larger than the ring takes is missed.
func TestTapRecordOverTheEnd(t *testing.T) {
	tap, serial := newTap(0), wire.BatchID(0)
	for round := range 200 {
		d := shard.Dispatch{Batch: serial << 16, Model: 3, Requests: make([]batching.Request, round*5)}
		for i := range d.Requests {
			d.Requests[i].ID = wire.RequestID(1000*round + i)
		}
		tap.batch(1, &d)
		tap.head.Store(tap.at)
		events := eventsOf(&watch.Told{Words: tap.read(nil)})
		if len(events) != 1 || events[0].Batch != d.Batch || len(events[0].Requests) != len(d.Requests) {
			t.Fatalf("batch %d of %d is told as %+v", serial, len(d.Requests), events)
		}
		for i, r := range events[0].Requests {
			if r.Key.ID != d.Requests[i].ID {
				t.Fatalf("request %d of batch %d is %d, want %d", i, serial, r.Key.ID, d.Requests[i].ID)
			}
		}
		serial++
	}
	if tap.at < 4*tap.size() {
		t.Fatalf("%d words in all: too few rounds of the ring", tap.at)
	}
	tap.batch(1, &shard.Dispatch{Requests: make([]batching.Request, recordMost)})
	if got := tap.missed.Load(); got != 1 {
		t.Errorf("%d were missed, want the one that is too large", got)
	}
	if largest := watch.BatchWords + watch.RequestWords*wire.BatchMax; largest > recordMost {
		t.Errorf("a batch has %d words, a record %d", largest, recordMost)
	}
}

// A tap begins with a line of memory, wherever it is.
func TestTapsAreWholeLines(t *testing.T) {
	for range 4 {
		if at := reflect.ValueOf(newTap(0)).Pointer(); at%64 != 0 {
			t.Errorf("a tap of %d bytes is at %#x, within a line", reflect.TypeFor[tap]().Size(), at)
		}
	}
}
