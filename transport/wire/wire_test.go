package wire

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/golden.txt anew: a change of the protocol")

// message is one specimen of a kind: how it is made and how it is read back.
type message struct {
	name   string
	kind   Kind
	value  any // what decode must give for shift 0
	frame  []byte
	decode func(body []byte, shift mono.Dur) (any, error)
}

func specimens() []message {
	slab := SlabRef{Handle: MakeSlabHandle(7, 9), Address: 0x1122334455667788, RKey: 0xaabbccdd, Length: 600 << 10}
	hello := Hello{Role: RoleBackend, Incarnation: 77, Token: [32]byte{1, 2, 31: 3}, Name: "backend-a"}
	reject := Reject{Version: 4, Text: "speak version 4"}
	ping := Ping{Sequence: 5, Sent: 1_000_001}
	pong := Pong{Sequence: 5, Sent: 1_000_001, Received: 2_000_002, Replied: 2_000_003}
	doc := Doc{Type: DocChanges}
	member := Member{Epoch: 3, Frontend: 2, Up: true, Instance: 1 << 50, Address: "tcp:10.0.0.7:7001"}
	leave := Leave{Epoch: 3}
	submit := Submit{Request: 1 << 60, Model: 12, Arrival: 100, Deadline: 25_000_100, Input: slab}
	told := submit
	told.Priority, told.Class, told.Application, told.App, told.Accuracy, told.Cost, told.Suspicion = 1, ClassBestEffort, 7, 0x11223344, 9_999, 0xaabbccdd, SuspicionStrong
	cancel := Cancel{Request: 1 << 60, Model: 12, Deadline: 25_000_100}
	answer := Answer{Request: 1 << 60, Reason: ReasonShed}
	batch := Batch{Epoch: 3, Batch: 99, Model: 12, GPU: 5, Device: 1, Pool: 2, Exec: 500, Until: 900, Latest: 700, Generation: 0x01020304,
		Items: []BatchItem{{Request: 1, Frontend: 2, Deadline: 1000, Input: slab}, {Request: 3, Frontend: 4, Deadline: 2000, Suspicion: SuspicionSome}}}
	resident := Batch{Epoch: 3, Batch: 99, Model: 12, GPU: 5, Device: 1, Pool: 2, Exec: 500, Until: 900, Latest: mono.Never, Items: []BatchItem{{Request: 1}}}
	done := Done{Epoch: 3, Batch: 99, Ready: 400, Start: 500, End: 900, Fetch: 42, Ran: 2, Failed: 1, Reason: ReasonNone, Flags: OutputCold}
	read := Read{Sequence: 8, Request: 1, Input: slab}
	reply := ReadReply{Sequence: 8, Reason: ReasonInput}
	output := Output{Request: 1, Reason: ReasonExecution, BatchSize: 16, Device: 5, Fetch: 42, Execute: 400, Start: 500}
	ran := Output{Request: 1, BatchSize: 16, Device: 5, Fetch: 42, Execute: 400, Start: 500, Epoch: 3, Batch: 99, Ready: 450, Flags: OutputCold, Model: 12}
	able := Hello{Role: RoleFrontend, Name: "f", Features: FeatureLane}
	offer := LaneOffer{Generation: 2, QPN: 0x11, PSN: 0xabcdef, GID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 1}, LID: 3, MTU: 5, MaxReads: 16,
		Buffers: 32, BufferSize: 8 << 10, Landing: RemoteMemory{Address: 0x1000, Size: 256 << 10, RKey: 7},
		Slabs: RemoteMemory{Address: 0x7f0000000000, Size: 256 << 20, RKey: 8}, Headers: 1000, Nonce: 0x1122334455667788}
	up := LaneUp{Generation: 2}
	down := LaneDown{Generation: 2, Next: 77, Text: "retries exceeded"}
	data := LaneData{Sequence: 78}
	lead := Lead{Epoch: 1 << 60, Leads: true}
	promise := Promise{Epoch: 1 << 60, Keep: true}
	running := Running{Epoch: 3, Batch: 99, Pool: 2, Device: 1, Until: 900, Items: []RunningItem{{Instance: 1 << 50, Request: 1}, {Instance: 7, Request: 3}}}
	promised := Promised{Epoch: 3, Highest: 1 << 60, Lost: true}
	beat := Beat{Epoch: 1 << 60, Leads: true, Number: 2, Yields: true, Every: mono.Millisecond, Backends: 9}
	return append(loads(), []message{
		{"Hello with features", KindHello, able, able.Append(nil), func(b []byte, _ mono.Dur) (any, error) { var m Hello; return get(&m, m.Decode(b)) }},
		{"LaneOffer", KindLaneOffer, offer, offer.Append(nil), func(b []byte, _ mono.Dur) (any, error) { var m LaneOffer; return get(&m, m.Decode(b)) }},
		{"LaneAccept", KindLaneAccept, offer, offer.AppendAccept(nil), func(b []byte, _ mono.Dur) (any, error) { var m LaneOffer; return get(&m, m.Decode(b)) }},
		{"LaneUp", KindLaneUp, up, up.Append(nil), func(b []byte, _ mono.Dur) (any, error) { var m LaneUp; return get(&m, m.Decode(b)) }},
		{"LaneDown", KindLaneDown, down, down.Append(nil), func(b []byte, _ mono.Dur) (any, error) { var m LaneDown; return get(&m, m.Decode(b)) }},
		{"LaneData", KindLaneData, data, data.Append(nil, 100), func(b []byte, _ mono.Dur) (any, error) { var m LaneData; return get(&m, m.Decode(b)) }},
		{"Hello", KindHello, hello, hello.Append(nil), func(b []byte, _ mono.Dur) (any, error) { var m Hello; return get(&m, m.Decode(b)) }},
		{"Welcome", KindWelcome, hello, hello.AppendWelcome(nil), func(b []byte, _ mono.Dur) (any, error) { var m Hello; return get(&m, m.Decode(b)) }},
		{"Reject", KindReject, reject, reject.Append(nil), func(b []byte, _ mono.Dur) (any, error) { var m Reject; return get(&m, m.Decode(b)) }},
		{"Ping", KindPing, ping, ping.Append(nil), func(b []byte, _ mono.Dur) (any, error) { var m Ping; return get(&m, m.Decode(b)) }},
		{"Pong", KindPong, pong, pong.Append(nil), func(b []byte, _ mono.Dur) (any, error) { var m Pong; return get(&m, m.Decode(b)) }},
		{"Doc", KindDoc, doc, doc.Append(nil, 1000), func(b []byte, _ mono.Dur) (any, error) { var m Doc; return get(&m, m.Decode(b)) }},
		{"Member", KindMember, member, member.Append(nil), func(b []byte, _ mono.Dur) (any, error) { var m Member; return get(&m, m.Decode(b)) }},
		{"Leave", KindLeave, leave, leave.Append(nil), func(b []byte, _ mono.Dur) (any, error) { var m Leave; return get(&m, m.Decode(b)) }},
		{"Lead", KindLead, lead, lead.Append(nil), func(b []byte, _ mono.Dur) (any, error) { var m Lead; return get(&m, m.Decode(b)) }},
		{"Promise", KindPromise, promise, promise.Append(nil), func(b []byte, _ mono.Dur) (any, error) { var m Promise; return get(&m, m.Decode(b)) }},
		{"Running", KindRunning, running, running.Append(nil), func(b []byte, s mono.Dur) (any, error) { var m Running; return get(&m, m.Decode(b, s)) }},
		{"Promised", KindPromised, promised, promised.Append(nil), func(b []byte, _ mono.Dur) (any, error) { var m Promised; return get(&m, m.Decode(b)) }},
		{"Beat", KindBeat, beat, beat.Append(nil), func(b []byte, _ mono.Dur) (any, error) { var m Beat; return get(&m, m.Decode(b)) }},
		{"Submit", KindSubmit, submit, submit.Append(nil), func(b []byte, s mono.Dur) (any, error) { var m Submit; return get(&m, m.Decode(b, s)) }},
		{"Submit that tells all", KindSubmit, told, told.Append(nil), func(b []byte, s mono.Dur) (any, error) { var m Submit; return get(&m, m.Decode(b, s)) }},
		{"Answer", KindAnswer, answer, answer.Append(nil), func(b []byte, _ mono.Dur) (any, error) { var m Answer; return get(&m, m.Decode(b)) }},
		{"Batch", KindBatch, batch, batch.Append(nil), func(b []byte, s mono.Dur) (any, error) { var m Batch; return get(&m, m.Decode(b, s)) }},
		{"Batch of resident weights", KindBatch, resident, resident.Append(nil), func(b []byte, s mono.Dur) (any, error) { var m Batch; return get(&m, m.Decode(b, s)) }},
		{"Done", KindDone, done, done.Append(nil), func(b []byte, s mono.Dur) (any, error) { var m Done; return get(&m, m.Decode(b, s)) }},
		{"Read", KindRead, read, read.Append(nil), func(b []byte, _ mono.Dur) (any, error) { var m Read; return get(&m, m.Decode(b)) }},
		{"ReadReply", KindReadReply, reply, reply.Append(nil, 600<<10), func(b []byte, _ mono.Dur) (any, error) { var m ReadReply; return get(&m, m.Decode(b)) }},
		{"Output with its batch", KindOutput, ran, ran.Append(nil, 40), func(b []byte, s mono.Dur) (any, error) { var m Output; return get(&m, m.Decode(b, s)) }},
		{"Cancel", KindCancel, cancel, cancel.Append(nil), func(b []byte, s mono.Dur) (any, error) { var m Cancel; return get(&m, m.Decode(b, s)) }},
		{"Output", KindOutput, output, output.Append(nil, 40), func(b []byte, s mono.Dur) (any, error) { var m Output; return get(&m, m.Decode(b, s)) }},
	}...)
}

// loads are those of orders to loaders, and what came of them.
func loads() []message {
	load := Load{Epoch: 3, Load: 1<<40 | 5, Model: 12, GPU: 5, Device: 1, Pool: 2, Op: OpLoad, Generation: 0x01020304, Earliest: 500, Latest: 700, Until: 900}
	unload := Load{Epoch: 3, Load: 1<<41 | 5, Model: 12, GPU: 5, Device: 1, Pool: 2, Op: OpUnload, Generation: 0x01020304, Earliest: 500, Latest: mono.Never, Until: 500}
	loaded := Loaded{Epoch: 3, Load: 1<<40 | 5, Model: 12, Device: 1, Pool: 2, Op: OpLoad, Reason: ReasonMemory, Generation: 0x01020304, Start: 500, End: 900, Copied: 1 << 33, Free: 1376}
	return []message{
		{"Load", KindLoad, load, load.Append(nil), func(b []byte, s mono.Dur) (any, error) { var m Load; return get(&m, m.Decode(b, s)) }},
		{"Load that unloads", KindLoad, unload, unload.Append(nil), func(b []byte, s mono.Dur) (any, error) { var m Load; return get(&m, m.Decode(b, s)) }},
		{"Loaded", KindLoaded, loaded, loaded.Append(nil), func(b []byte, s mono.Dur) (any, error) { var m Loaded; return get(&m, m.Decode(b, s)) }},
	}
}

// get evaluates after Decode, so *m is the decoded value.
func get[M any](m *M, err error) (any, error) { return *m, err }

func TestRoundTrip(t *testing.T) {
	for _, m := range specimens() {
		h, need, err := Scan(m.frame, PayloadMax)
		if err != nil || need != 0 || h.Kind != m.kind || h.Size() != len(m.frame) {
			t.Fatalf("%s: header %+v, need %d, err %v", m.name, h, need, err)
		}
		got, err := m.decode(m.frame[HeaderSize:], 0)
		if err != nil || !reflect.DeepEqual(got, m.value) {
			t.Errorf("%s: %+v, %v, want %+v", m.name, got, err, m.value)
		}
		// Fields of a later build, behind ours, do not disturb.
		got, err = m.decode(append(append([]byte(nil), m.frame[HeaderSize:]...), 1, 2, 3), 0)
		if err != nil || !reflect.DeepEqual(got, m.value) {
			t.Errorf("%s with a tail: %+v, %v", m.name, got, err)
		}
	}
}

func TestEveryShorterBodyIsShort(t *testing.T) {
	for _, m := range specimens() {
		end := len(m.frame) - HeaderSize
		if h, ok := m.value.(Hello); ok && h.Features != 0 {
			end -= 4 // a side without features does not write them
		}
		for n := range end {
			if _, err := m.decode(m.frame[HeaderSize:HeaderSize+n], 0); !errors.Is(err, ErrShort) && !errors.Is(err, ErrValue) {
				t.Errorf("%s cut to %d bytes: %v", m.name, n, err)
			}
		}
	}
}

// Instants move by shift, spans and raw instants do not.
func TestShift(t *testing.T) {
	const by = mono.Dur(1_000_000)
	for _, m := range specimens() {
		got, err := m.decode(m.frame[HeaderSize:], by)
		if err != nil {
			t.Fatal(err)
		}
		want := shifted(m.value, by)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", m.name, got, want)
		}
	}
	never := Submit{Arrival: mono.Past, Deadline: mono.Never}
	var back Submit
	if err := back.Decode(never.Append(nil)[HeaderSize:], by); err != nil || back.Deadline != mono.Never || back.Arrival != mono.Past {
		t.Errorf("never and past shifted to %v and %v, %v", back.Deadline, back.Arrival, err)
	}
}

func shifted(v any, by mono.Dur) any {
	switch v := v.(type) {
	case Submit:
		v.Arrival, v.Deadline = v.Arrival.Add(by), v.Deadline.Add(by)
		return v
	case Cancel:
		v.Deadline = v.Deadline.Add(by)
		return v
	case Batch:
		v.Exec, v.Until, v.Latest = v.Exec.Add(by), v.Until.Add(by), v.Latest.Add(by)
		v.Items = append([]BatchItem(nil), v.Items...)
		for i := range v.Items {
			v.Items[i].Deadline = v.Items[i].Deadline.Add(by)
		}
		return v
	case Running:
		v.Until = v.Until.Add(by)
		return v
	case Done:
		v.Ready, v.Start, v.End = v.Ready.Add(by), v.Start.Add(by), v.End.Add(by)
		return v
	case Output:
		v.Start, v.Ready = v.Start.Add(by), v.Ready.Add(by)
		return v
	case Load:
		v.Earliest, v.Latest, v.Until = v.Earliest.Add(by), v.Latest.Add(by), v.Until.Add(by)
		return v
	case Loaded:
		v.Start, v.End = v.Start.Add(by), v.End.Add(by)
		return v
	}
	return v
}

// The bytes of every message, so that nobody changes a layout unawares.
func TestGolden(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, "version %d\n", Version)
	for _, m := range specimens() {
		fmt.Fprintf(&b, "%s kind=%d header=%s\n", m.name, m.kind, hex.EncodeToString(m.frame[:HeaderSize]))
		for body := m.frame[HeaderSize:]; len(body) > 0; body = body[min(len(body), 32):] {
			fmt.Fprintf(&b, "  %s\n", hex.EncodeToString(body[:min(len(body), 32)]))
		}
	}
	const path = "testdata/golden.txt"
	if *rewrite {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the protocol's bytes changed; if on purpose, raise Version and run with -rewrite\n%s", b.String())
	}
}

func TestBounds(t *testing.T) {
	bad := map[string]error{}
	body := func(frame []byte) []byte { return frame[HeaderSize:] }
	bad["role 0"] = new(Hello).Decode(body((&Hello{}).Append(nil)))
	bad["role 9"] = new(Hello).Decode(body((&Hello{Role: 9}).Append(nil)))
	bad["reason"] = new(Answer).Decode(body((&Answer{Reason: reasonEnd}).Append(nil)))
	bad["reply reason"] = new(ReadReply).Decode(body((&ReadReply{Reason: 999}).Append(nil, 0)))
	bad["output reason"] = new(Output).Decode(body((&Output{Reason: 999}).Append(nil, 0)), 0)
	bad["done reason"] = new(Done).Decode(body((&Done{Reason: 999}).Append(nil)), 0)
	bad["document 0"] = new(Doc).Decode(body((&Doc{}).Append(nil, 1)))
	bad["document 99"] = new(Doc).Decode(body((&Doc{Type: 99}).Append(nil, 1)))
	bad["class 2"] = new(Submit).Decode(body((&Submit{Class: classEnd}).Append(nil)), 0)
	bad["suspicion 3"] = new(Submit).Decode(body((&Submit{Suspicion: suspicionEnd}).Append(nil)), 0)
	bad["suspicion 3 of an item"] = new(Batch).Decode(body((&Batch{Items: []BatchItem{{Suspicion: suspicionEnd}}}).Append(nil)), 0)
	bad["accuracy above 1"] = new(Submit).Decode(body((&Submit{Accuracy: AccuracyOne + 1}).Append(nil)), 0)
	bad["load operation 0"] = new(Load).Decode(body((&Load{Generation: 1}).Append(nil)), 0)
	bad["load operation 3"] = new(Load).Decode(body((&Load{Op: OpUnload + 1, Generation: 1}).Append(nil)), 0)
	bad["load of generation 0"] = new(Load).Decode(body((&Load{Op: OpLoad}).Append(nil)), 0)
	bad["load of generation 0"] = new(Load).Decode(body((&Load{Op: OpLoad, Model: ModelNone}).Append(nil)), 0)
	bad["unload of generation 0"] = new(Load).Decode(body((&Load{Op: OpUnload, Model: 3}).Append(nil)), 0)
	if err := new(Load).Decode(body((&Load{Op: OpUnload, Model: ModelNone}).Append(nil)), 0); err != nil {
		t.Errorf("an order to forget what has no id: %v", err)
	}
	bad["loaded reason"] = new(Loaded).Decode(body((&Loaded{Op: OpLoad, Reason: reasonEnd}).Append(nil)), 0)
	bad["empty batch"] = new(Batch).Decode(body((&Batch{}).Append(nil)), 0)
	bad["batch of 1025"] = new(Batch).Decode(body((&Batch{Items: make([]BatchItem, BatchMax+1)}).Append(nil)), 0)
	long := append(make([]byte, 13), 200)
	bad["address"] = new(Member).Decode(append(long, make([]byte, 200)...))
	for name, err := range bad {
		if !errors.Is(err, ErrValue) {
			t.Errorf("%s: %v, want ErrValue", name, err)
		}
	}
	// What is for people is cut, not refused.
	long2 := Hello{Role: RoleFrontend, Name: strings.Repeat("n", 300)}
	var h Hello
	if err := h.Decode(body(long2.Append(nil))); err != nil || len(h.Name) != nameMax {
		t.Errorf("long name: %d bytes, %v", len(h.Name), err)
	}
	if full := (&Batch{Items: make([]BatchItem, BatchMax)}).Append(nil); len(full)-HeaderSize > BodyMax {
		t.Errorf("the largest batch has a body of %d bytes, at most %d", len(full)-HeaderSize, BodyMax)
	}
}

// A peer of the same Version that knows fewer reasons ends the link at one that it does not know. So who adds
// reasons raises Version before they are sent.
func TestReasonsOfVersion(t *testing.T) {
	if Version != 4 || ReasonCount != 18 {
		t.Errorf("Version %d has %d reasons: with more of them raise Version, and write both here", Version, ReasonCount)
	}
}

func TestReasonNames(t *testing.T) {
	seen := map[string]bool{}
	for r := ReasonNone; r < reasonEnd; r++ {
		if n := r.String(); n == "" || n == "unknown" || seen[n] {
			t.Errorf("reason %d is called %q", r, n)
		}
		seen[r.String()] = true
	}
	if Reason(999).String() != "unknown" {
		t.Error("a reason of a later build must be called unknown")
	}
}
