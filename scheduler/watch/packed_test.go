package watch

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// drawn are events as a scheduler tells them, and some with the largest numbers that there are.
func drawn(seed uint64, n int) (all []Event) {
	r := rand.New(rand.NewPCG(seed, 1))
	at := mono.Time(r.Int64N(1 << 55))
	some := func() mono.Time {
		switch r.IntN(50) {
		case 0:
			return math.MaxInt64
		case 1:
			return math.MinInt64
		case 2:
			return 0
		}
		return at.Add(mono.Dur(r.Int64N(1<<26) - 1<<24))
	}
	whole := func() int32 { return []int32{1, 8, 1000, math.MaxInt32, math.MinInt32, 0}[r.IntN(6)] }
	for range n {
		at = at.Add(mono.Dur(r.Int64N(1 << 20)))
		e := Event{Kind: Batch + Kind(r.IntN(7)), Pool: int32(r.IntN(3) * r.IntN(idMax/2)), At: at, Model: wire.ModelID(r.IntN(idMax + 1)), Exec: some(), Until: some()}
		key := Key{wire.FrontendID(r.Uint32() >> r.IntN(32)), wire.RequestID(r.Uint64() >> r.IntN(64))}
		switch e.Kind {
		case Batch:
			e.Batch, e.GPU, e.Due, e.Size = wire.BatchID(r.Uint64()), wire.GPUID(r.IntN(idMax+1)), some(), whole()
			for range r.IntN(5) {
				key.ID++
				e.Requests = append(e.Requests, Request{Key: key, Arrival: some(), Deadline: some()})
			}
		case Done:
			e.Batch, e.GPU, e.Fetch, e.Size = wire.BatchID(r.Uint64()), wire.GPUID(r.IntN(idMax+1)), mono.Dur(some()), whole()
		case Drop:
			e.Exec, e.Until, e.Margin, e.Reason = 0, 0, mono.Dur(some()), wire.Reason(r.IntN(wire.ReasonCount))
			e.Request = Request{Key: key, Arrival: some(), Came: some(), Deadline: some()}
		case Queue:
			e.Due, e.Size, e.Queued = some(), whole(), whole()
		case Load, Loaded:
			e.Batch, e.GPU, e.Why = wire.BatchID(r.Uint64()), wire.GPUID(r.IntN(idMax+1)), Why(r.IntN(int(whyEnd)))
			if e.Kind == Load {
				e.Size = whole()
			}
		case Evict:
			e.Exec, e.GPU, e.Why, e.For = 0, wire.GPUID(r.IntN(idMax+1)), Why(r.IntN(int(whyEnd))), wire.ModelID(r.IntN(idMax+1))
		}
		all = append(all, e)
	}
	return all
}

func packAll(all []Event) (text []byte) {
	var p packing
	for i := range all {
		text = p.append(text, all[i].appendRecord(nil))
	}
	return text
}

// What is packed is unpacked the same, whatever its numbers are.
func TestPacked(t *testing.T) {
	for seed := range uint64(100) {
		all := drawn(seed, 50)
		var d decoder
		if err := d.unpack(packAll(all), allKinds); err != nil || !reflect.DeepEqual(d.events, all) {
			for i := range min(len(all), len(d.events)) {
				if !reflect.DeepEqual(d.events[i], all[i]) {
					t.Fatalf("seed %d: event %d is unpacked as\n%+v, want\n%+v", seed, i, d.events[i], all[i])
				}
			}
			t.Fatalf("seed %d: %d events of %d, %v", seed, len(d.events), len(all), err)
		}
	}
}

// A history tells what it was told, in any order of lines and records: as a stream, as plain lines, in pieces of
// both, and as events.
func TestHistoryTellsWhatItWasTold(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 2))
		events, n := drawn(seed, 3000), 0
		for i := range events { // their instants are not near each other here: what is kept is all
			if r.IntN(100) == 0 {
				events[i] = all()[r.IntN(len(all()))]
			}
		}
		h := NewHistory(math.MaxInt64, math.MaxInt)
		for i := range events {
			if h.Add(&events[i]); r.IntN(500) == 0 {
				h.Close()
			}
		}
		var r1, r2 Reader
		take := func(e *Event) {
			if n < len(events) && !reflect.DeepEqual(*e, events[n]) {
				t.Fatalf("seed %d: event %d is\n%+v, want\n%+v", seed, n, *e, events[n])
			}
			n++
		}
		for line := range strings.Lines(string(h.Append(nil, 0, ""))) {
			if err := r1.Line([]byte(line), take); err != nil {
				t.Fatal(err)
			}
		}
		if n != len(events) || h.Len() != n || !reflect.DeepEqual(eventsOf(h), events) {
			t.Fatalf("seed %d: %d events are told and %d kept, want %d", seed, n, h.Len(), len(events))
		}
		n = 0
		for next, until := uint64(0), uint64(len(events)-7); next < until; {
			var text []byte
			text, next = h.AppendPlain(nil, next, until, 1+r.IntN(10_000))
			for line := range strings.Lines(string(text)) {
				if err := r2.Line([]byte(line), take); err != nil || strings.Contains(line, packedName) {
					t.Fatal(line, err)
				}
			}
			if uint64(n) != next {
				t.Fatalf("seed %d: %d events are told, and the next is %d", seed, n, next)
			}
		}
	}
}

// What no scheduler packed is refused, and the error says what is wrong.
func TestPackedRefusals(t *testing.T) {
	good := string(packAll(drawn(1, 3)))
	for text, want := range map[string]string{
		good[:len(good)-1]: "ends within", "B": "ends within", "Bg": "ends within", "B" + strings.Repeat("/", 13): "more than 64 bits", "C" + strings.Repeat("g", 12) + "Q": "more than 64 bits",
		"A": "kind 0", "F": "ends within", "H": "ends within", good + "!": "no digit", good + "\xff": "no digit", "B/////////BAAAAAAAA": "ends within",
		"C" + "A" + "A" + "hgggE" + "AAAAAA": "model", "i////D": "pool", "E" + "A" + "A" + "ggggggggC" + "AAAAA": "32 bits",
	} {
		var d decoder
		if err := d.unpack([]byte(text), allKinds); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
		var r Reader
		if err := r.Line([]byte(packedHead+text+packedTail), func(*Event) { t.Errorf("%.40q: an event is taken", text) }); !errors.Is(err, ErrDocument) && text[len(text)-1] < 0x80 {
			t.Errorf("%.40q in a document: %v", text, err)
		}
	}
	var r Reader
	for _, text := range []string{`{"e":"packed"}`, `{"e":"packed","records":""}`, `{"e":"of a later version"}`} {
		if err := r.Line([]byte(text), func(*Event) { t.Error("an event of", text) }); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Of what can be unpacked the events are the same when they are packed again.
func FuzzPacked(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(packAll(drawn(seed, 4)))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var d, again decoder
		if d.unpack(text, allKinds) != nil {
			return
		}
		if err := again.unpack(packAll(d.events), allKinds); err != nil || !reflect.DeepEqual(again.events, d.events) {
			t.Errorf("%q is packed again as what is not the same: %v", text, err)
		}
		var s State
		for i := range d.events {
			s.Apply(&d.events[i])
		}
	})
}

// Records of several loops are put in the order of their instants.
func TestToldIsSorted(t *testing.T) {
	var told Told
	events := drawn(3, 200)
	for i := range events {
		told.Add(&events[i])
	}
	all := slices.Clone(events)
	at := len(events[0].appendRecord(nil))
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(events)-1, func(i, k int) { events[i+1], events[k+1] = events[k+1], events[i+1] })
	told.Reset()
	for i := range events {
		told.Add(&events[i])
	}
	told.Sort(at)
	i := 0
	for e := range told.All {
		if e.Kind != all[i].Kind || e.At != all[i].At || e.Batch != all[i].Batch || len(e.Requests) != len(all[i].Requests) {
			t.Fatalf("event %d is %+v, want %+v", i, e, all[i])
		}
		i++
	}
	for record := range Records(told.Words) {
		SetPool(record, 77)
	}
	for record := range Records(told.Words) {
		if recordPool(record) != 77 {
			t.Fatal("a record is of another pool")
		}
	}
	if i != told.Len() || i != len(all) {
		t.Errorf("%d events of %d", i, len(all))
	}
}

// A full history takes looks without a piece of memory.
func TestHistoryTakesNoMemory(t *testing.T) {
	h, events := NewHistory(mono.Second, 1<<24), drawn(5, 200)
	var told Told
	for i := range events {
		events[i].At = 0
		told.Add(&events[i])
	}
	now := mono.Time(0)
	look := func() {
		for record := range Records(told.Words) {
			record[1] = uint64(now)
		}
		now = now.Add(100 * mono.Millisecond)
		h.AddRecords(told.Words)
		h.Close()
	}
	for range 100 {
		look()
	}
	if n := testing.AllocsPerRun(100, look); n != 0 {
		t.Errorf("%v allocations a look", n)
	}
}

// What is written by hand of batches and reports is what their layouts say.
func TestPackingIsByLayout(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	number := func() uint64 { return random.Uint64() >> random.IntN(64) }
	var one, other packing
	for range 10_000 {
		k, n := Done, DoneWords
		if random.IntN(2) == 0 {
			k, n = Batch, BatchWords+RequestWords*random.IntN(4)
		}
		record := []uint64{RecordHead(k, n)}
		for len(record) < n {
			record = append(record, number())
		}
		got, want := one.append(nil, record), make([]byte, digitsMost*(n+1))
		at := putNumber(want, 0, uint64(k))
		if k == Batch {
			at = putNumber(want, at, uint64(n-BatchWords)/RequestWords)
		}
		layout := layoutOf(k)
		at = other.put(want, at, record[1:1+len(layout)], layout)
		for rest := record[1+len(layout):]; len(rest) > 0; rest = rest[RequestWords:] {
			at = other.put(want, at, rest[:RequestWords], requestLayout)
		}
		if !bytes.Equal(got, want[:at]) || one != other {
			t.Fatalf("%d is %q, want %q", record, got, want[:at])
		}
	}
}
