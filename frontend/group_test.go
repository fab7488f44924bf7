package frontend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// members is a client of a group of schedulers, and what the test told it as each of them. Each
// has the model m under an id of its own: idOf.
type members struct {
	*Client
	g     *group
	links []*fakeLink
	at    []uint64 // serials
}

func idOf(i int) wire.ModelID { return wire.ModelID(10*i + 1) }

func newMembers(t testing.TB, n int, change func(*Options)) *members {
	h := &members{at: make([]uint64, n), links: make([]*fakeLink, n)}
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint("inproc:", i))
	}
	h.Client = alone(t, func(o *Options) {
		o.Scheduler = strings.Join(all, "+")
		if change != nil {
			change(o)
		}
	})
	h.g = h.groups[0]
	h.g.grace.Store(int64(60 * mono.Second)) // a machine that pauses is not to decide
	for i := range n {
		h.join(i)
		h.serve(i)
	}
	return h
}

func (h *members) join(i int) {
	h.links[i], h.at[i] = &fakeLink{}, 0
	h.uplinks[i].tell(h.links[i], wire.DocAdmitted, catalog.Admitted{Epoch: 1})
}

func (h *members) change(i int, ch catalog.Changes) {
	ch.Epoch, ch.Since, ch.Serial = 1, h.at[i], h.at[i]+1
	h.at[i]++
	h.uplinks[i].tell(h.links[i], wire.DocChanges, ch)
}

// serve tells that i has m, and a device for it.
func (h *members) serve(i int) {
	spec := catalog.ModelSpec{Name: "m", Version: "1", SLO: 20 * mono.Second, Inputs: vector(4), Outputs: vector(4)}
	h.change(i, catalog.Changes{Pools: []catalog.PoolState{{DeviceType: "e", GPUs: 1}}, Models: []catalog.Served{{ID: idOf(i), DeviceType: "e", Spec: spec}}})
}

func (h *members) lead(i int, reign wire.Epoch, leads bool) {
	m := wire.Lead{Epoch: reign, Leads: leads}
	h.uplinks[i].Receive(h.links[i], transport.Frame{Kind: wire.KindLead, Body: m.Append(nil)[wire.HeaderSize:]})
}

func (h *members) lose(i int) { h.uplinks[i].Closed(h.links[i], errors.New("lost")) }

func (h *members) answer(i int, id wire.RequestID, reason wire.Reason) {
	m := wire.Answer{Request: id, Reason: reason}
	h.uplinks[i].Receive(h.links[i], transport.Frame{Kind: wire.KindAnswer, Body: m.Append(nil)[wire.HeaderSize:]})
}

// output is a backend's.
func (h *members) output(id wire.RequestID, reason wire.Reason) {
	payload := make([]byte, 16)
	if reason != wire.ReasonNone {
		payload = nil
	}
	m := wire.Output{Request: id, Reason: reason, BatchSize: 1}
	d := &dataHandler{client: h.Client}
	d.Receive(&fakeLink{}, transport.Frame{Kind: wire.KindOutput, Body: m.Append(nil, len(payload))[wire.HeaderSize:], Payload: payload})
}

// sent are the requests that i got.
func (h *members) sent(i int) []wire.Submit {
	l := h.links[i]
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]wire.Submit(nil), l.submits...)
}

// ask begins a request; its answers come to the channel.
func (h *members) ask(timeout time.Duration) chan error {
	answers := make(chan error, 4)
	q := ask("m", "", 4, 1)
	q.Timeout = timeout
	h.InferAsync(context.Background(), q, func(_ *Response, err error) { answers <- err })
	return answers
}

// none fails if the request has an answer.
func none(t *testing.T, what string, answers chan error) {
	t.Helper()
	select {
	case err := <-answers:
		t.Fatalf("%s: answered: %v", what, err)
	default:
	}
}

// got waits until i has n requests.
func (h *members) got(t *testing.T, i, n int) []wire.Submit {
	t.Helper()
	eventually(t, fmt.Sprintf("%d requests at %d", n, i), func() bool { return len(h.sent(i)) >= n })
	all := h.sent(i)
	for _, m := range all {
		if m.Model != idOf(i) {
			t.Errorf("request for model %d at %d, want %d", m.Model, i, idOf(i))
		}
	}
	if len(all) != n {
		t.Errorf("%d requests at %d, want %d", len(all), i, n)
	}
	return all
}

// Of those that are up and say that they lead the highest reign leads, whatever the order in which
// the words come.
func TestWhoLeads(t *testing.T) {
	h := newMembers(t, 3, nil)
	for _, step := range []struct {
		what  string
		do    func()
		want  int // -1: nobody
		reign wire.Epoch
	}{
		{"nobody said anything", func() {}, -1, 0},
		{"spares", func() { h.lead(0, 0, false); h.lead(1, 0, false) }, -1, 0},
		{"one leads", func() { h.lead(0, 100, true) }, 0, 100},
		{"says it again", func() { h.lead(0, 100, true) }, 0, 100},
		{"a spare has heard of it", func() { h.lead(1, 100, false) }, 0, 100},
		{"another one takes over", func() { h.lead(1, 200, true) }, 1, 200},
		{"the old one still says that it leads", func() { h.lead(0, 100, true) }, 1, 200},
		{"the old one steps down", func() { h.lead(0, 200, false) }, 1, 200},
		{"its old word comes late", func() { h.lead(0, 100, true) }, 1, 200},
		{"the new one's link ends", func() { h.lose(1) }, -1, 0},
		{"and comes back", func() { h.join(1); h.serve(1) }, -1, 0},
		{"without leading", func() { h.lead(1, 200, false) }, -1, 0},
		{"a candidate becomes the leader of its reign", func() { h.lead(2, 300, false); h.lead(2, 300, true) }, 2, 300},
		{"which is lost while another one leads", func() { h.lead(0, 400, true); h.lose(2) }, 0, 400},
		{"it steps down", func() { h.lead(0, 400, false) }, -1, 0},
		{"and leads again", func() { h.lead(0, 500, true) }, 0, 500},
		{"in another reign at once", func() { h.lead(0, 600, true) }, 0, 600},
		{"an older one comes later", func() { h.lead(1, 550, true) }, 0, 600},
		{"and is the only one", func() { h.lose(0) }, 1, 550},
		{"before its admission a word means nothing", func() { h.links[2] = &fakeLink{}; h.lead(2, 900, true) }, 1, 550},
		{"after it, it does", func() { h.uplinks[2].tell(h.links[2], wire.DocAdmitted, catalog.Admitted{Epoch: 1}) }, 2, 900},
	} {
		step.do()
		r := h.g.leads.Load()
		switch {
		case step.want < 0 && r != nil:
			t.Fatalf("%s: %s leads, want nobody", step.what, r.uplink.address)
		case step.want >= 0 && (r == nil || r.uplink != h.uplinks[step.want] || r.epoch != step.reign):
			t.Fatalf("%s: %+v, want %d in %d", step.what, r, step.want, step.reign)
		}
	}
	bad := &fakeLink{}
	h.uplinks[0].Receive(bad, transport.Frame{Kind: wire.KindLead, Body: []byte{1}})
	if !errors.Is(bad.cause(), transport.ErrProtocol) {
		t.Errorf("a word cut short: %v", bad.cause())
	}
}

// A scheduler alone leads without saying so, and whatever it says of it.
func TestAloneLeads(t *testing.T) {
	h := newMembers(t, 1, nil)
	for _, say := range []func(){func() {}, func() { h.lead(0, 7, false) }, func() { h.lead(0, 7, true) }, func() { h.lead(0, 3, false) }} {
		say()
		h.ask(0)
	}
	if len(h.sent(0)) != 4 || h.links[0].cause() != nil {
		t.Errorf("%d requests went out, want 4; %v", len(h.sent(0)), h.links[0].cause())
	}
	h.failAll(wire.ReasonCancelled)
	allFree(t, h.Client)
}

// What a scheduler says of a request that another one has now is not heard; neither is what it
// said of it in an earlier reign of its own.
func TestLateAnswerOfTheOldLeader(t *testing.T) {
	h := newMembers(t, 2, nil)
	h.lead(0, 100, true)
	answers := h.ask(0)
	id := h.got(t, 0, 1)[0].Request
	h.lead(1, 200, true)
	h.got(t, 1, 1)
	for _, reason := range []wire.Reason{wire.ReasonDraining, wire.ReasonUnavailable, wire.ReasonShed, wire.ReasonDeadline} {
		h.answer(0, id, reason)
	}
	none(t, "the old leader refuses", answers)
	h.lead(0, 200, false)
	h.lead(1, 300, false)
	h.answer(1, id, wire.ReasonUnavailable)
	none(t, "one that steps down refuses", answers)
	h.lead(0, 300, true)
	h.got(t, 0, 2)
	h.answer(1, id, wire.ReasonShed)
	none(t, "one that stepped down refuses", answers)
	h.answer(0, id, wire.ReasonShed)
	if err := <-answers; !errors.Is(err, ErrDropped) {
		t.Errorf("the leader refuses: %v", err)
	}
	h.output(id, wire.ReasonNone)
	none(t, "an output after that", answers)
	allFree(t, h.Client)
}

// A request comes while nobody leads, one is open when the leader goes: both are sent to who leads
// next, with their deadlines; what was answered meanwhile is not.
func TestNobodyLeads(t *testing.T) {
	registry, log := prometheus.NewRegistry(), &lockedLog{}
	h := newMembers(t, 2, func(o *Options) { o.Metrics, o.Logger = registry, zerolog.New(log) })
	if _, err := h.Infer(t.Context(), ask("m", "", 4, 1)); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "the group of schedulers inproc:0+inproc:1 has not been reached yet") {
		t.Errorf("before there was a leader: %v", err)
	}
	h.lead(0, 100, true)
	first, answered := h.ask(0), h.ask(0)
	before := h.got(t, 0, 2)
	h.lose(0)
	h.output(before[1].Request, wire.ReasonNone)
	if err := <-answered; err != nil {
		t.Errorf("an output while nobody leads: %v", err)
	}
	second := h.ask(time.Minute)
	none(t, "open", first)
	none(t, "new", second)
	if e, err := h.Model("m", ""); err != nil || !e.Ready || !h.Ready() || !h.Serving() || len(h.Models().Entries) != 1 {
		t.Errorf("while nobody leads: %+v, %v, ready %v, serving %v", e, err, h.Ready(), h.Serving())
	}
	if got := groupMetrics(t, registry); got != "sent_again_total=0 takeovers_total=0 waiting=2" {
		t.Error(got)
	}
	h.lead(1, 200, true)
	after := h.got(t, 1, 2)
	if after[0].Deadline != before[0].Deadline || after[0].Arrival != before[0].Arrival || after[0].Request != before[0].Request || after[0].Input != before[0].Input {
		t.Errorf("%+v was sent again as %+v", before[0], after[0])
	}
	for _, m := range after {
		h.output(m.Request, wire.ReasonNone)
	}
	for _, a := range []chan error{first, second} {
		if err := <-a; err != nil {
			t.Error(err)
		}
	}
	eventually(t, "a line", func() bool {
		return log.count("a scheduler leads its group", "inproc:1", `"sent_again":1`, `"had_waited":1`) == 1
	})
	eventually(t, "the metrics", func() bool { return groupMetrics(t, registry) == "sent_again_total=1 takeovers_total=1 waiting=0" })
	allFree(t, h.Client)
}

// groupMetrics are those of the one group.
func groupMetrics(t *testing.T, r *prometheus.Registry) string {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string // by name
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if label(m, "group") != "" {
				all = append(all, fmt.Sprintf("%s=%g", strings.TrimPrefix(f.GetName(), "symphony_frontend_"), m.GetCounter().GetValue()+m.GetGauge().GetValue()))
			}
		}
	}
	return strings.Join(all, " ")
}

// A deadline that passes while nobody leads is an answer, once, and nothing of it is sent later.
func TestDeadlineWhileNobodyLeads(t *testing.T) {
	h := newMembers(t, 2, nil)
	h.lead(0, 100, true)
	begin := time.Now()
	sent := h.ask(50 * time.Millisecond)
	h.got(t, 0, 1)
	h.lose(0)
	late := time.Since(begin) > 50*time.Millisecond // perhaps it was answered before
	waits := h.ask(50 * time.Millisecond)
	for what, answers := range map[string]chan error{"open": sent, "new": waits} {
		err := <-answers
		var e *Error
		if !errors.Is(err, ErrDeadlineExceeded) || !errors.As(err, &e) || e.Reason != wire.ReasonExpired {
			t.Errorf("%s: %v", what, err)
		}
		if (what == "new" || !late) && !strings.Contains(err.Error(), "no scheduler of the group inproc:0+inproc:1 leads") {
			t.Errorf("%s: %v", what, err)
		}
	}
	h.lead(1, 200, true)
	last := h.ask(0)
	m := h.got(t, 1, 1)[0]
	h.output(m.Request, wire.ReasonNone)
	if err := <-last; err != nil {
		t.Error(err)
	}
	none(t, "again", sent)
	none(t, "again", waits)
	allFree(t, h.Client)
}

// A leader steps down while its link is up, and gives up its devices and models: readiness and
// requests do not notice. It leads again, with its ids given to others.
func TestLeaderStepsDown(t *testing.T) {
	h := newMembers(t, 2, nil)
	h.lead(0, 100, true)
	first := h.ask(0)
	h.got(t, 0, 1)
	ready := func(what string) {
		t.Helper()
		if e, err := h.Model("m", ""); err != nil || !e.Ready || !h.Ready() || !h.Serving() {
			t.Fatalf("%s: %+v, %v, ready %v, serving %v", what, e, err, h.Ready(), h.Serving())
		}
	}
	h.lead(0, 100, false)
	ready("stepped down")
	h.change(0, catalog.Changes{Pools: []catalog.PoolState{{DeviceType: "e"}}})
	ready("without devices")
	other := catalog.ModelSpec{Name: "other", Version: "1", SLO: mono.Second, Inputs: vector(4), Outputs: vector(4)}
	h.change(0, catalog.Changes{Gone: []wire.ModelID{idOf(0)}})
	h.change(0, catalog.Changes{Pools: []catalog.PoolState{{DeviceType: "e", GPUs: 1}}, Models: []catalog.Served{{ID: idOf(0), DeviceType: "e", Spec: other}}})
	ready("without the model")
	second := h.ask(0)
	h.lead(0, 200, true) // what was bound to its id of before must not go out under it
	third := h.ask(0)
	ready("led by one that does not serve it yet")
	for _, a := range []chan error{first, second, third} {
		none(t, "waits", a)
	}
	if n := len(h.sent(0)); n != 1 {
		t.Fatalf("%d requests went to another model's id", n-1)
	}
	h.lead(1, 300, true)
	for _, m := range h.got(t, 1, 3) {
		h.output(m.Request, wire.ReasonNone)
	}
	for _, a := range []chan error{first, second, third} {
		if err := <-a; err != nil {
			t.Error(err)
		}
	}
	eventually(t, "its own catalogue", func() bool { return h.g.held.Load() == nil })
	ready("taken over")
	allFree(t, h.Client)
}

// What the new leader does not serve yet waits for it: its catalogue, its devices, or that it says
// so no more.
func TestCatalogueOnItsWay(t *testing.T) {
	for what, lacks := range map[string]struct{ first, then func(h *members) }{
		"catalogue": {func(h *members) { h.lose(1); h.join(1) }, func(h *members) { h.serve(1) }},
		"model":     {func(h *members) { h.change(1, catalog.Changes{Gone: []wire.ModelID{idOf(1)}}) }, func(h *members) { h.serve(1) }},
		"devices": {func(h *members) { h.change(1, catalog.Changes{Pools: []catalog.PoolState{{DeviceType: "e"}}}) },
			func(h *members) { h.change(1, catalog.Changes{Pools: []catalog.PoolState{{DeviceType: "e", GPUs: 1}}}) }},
	} {
		h := newMembers(t, 2, nil)
		h.lead(0, 100, true)
		first := h.ask(0)
		h.got(t, 0, 1)
		lacks.first(h)
		h.lose(0)
		h.lead(1, 200, true)
		second := h.ask(0)
		if e, err := h.Model("m", ""); err != nil || !e.Ready {
			t.Errorf("%s: %+v, %v", what, e, err)
		}
		none(t, what, first)
		none(t, what, second)
		if n := len(h.sent(1)); n != 0 {
			t.Errorf("%s: %d requests went out", what, n)
		}
		lacks.then(h)
		for _, m := range h.got(t, 1, 2) {
			h.output(m.Request, wire.ReasonNone)
		}
		for _, a := range []chan error{first, second} {
			if err := <-a; err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		allFree(t, h.Client)
		h.Close()
	}
}

// What the new leader lacks for good is answered, once it had its time; what it had is away, not unknown.
func TestLackingForGood(t *testing.T) {
	h := newMembers(t, 2, nil)
	h.g.grace.Store(int64(50 * mono.Millisecond))
	h.lead(0, 100, true)
	answers := h.ask(0)
	h.got(t, 0, 1)
	h.change(1, catalog.Changes{Gone: []wire.ModelID{idOf(1)}})
	h.lead(1, 200, true)
	if err := <-answers; !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v", err)
	}
	eventually(t, "its own catalogue", func() bool { return len(h.Models().Entries) == 0 })
	if _, err := h.Infer(t.Context(), ask("m", "", 4, 1)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("what the leader before had: %v", err)
	}
	if _, err := h.Infer(t.Context(), ask("n", "", 4, 1)); !errors.Is(err, ErrUnknownModel) {
		t.Errorf("what nobody had: %v", err)
	}
	allFree(t, h.Client)
}

// A link that takes no more is tried until it does, in the order of the deadlines.
func TestTakeOverOfAFullLink(t *testing.T) {
	const requests = 5 * resendBatch
	h := newMembers(t, 2, func(o *Options) { o.MaxInFlight = requests + 1 })
	h.lead(0, 100, true)
	var all []chan error
	for i := range requests {
		all = append(all, h.ask(time.Duration(20+(i*7)%requests)*time.Second))
	}
	h.got(t, 0, requests)
	h.links[1].mu.Lock()
	h.links[1].room = 2 // Sends
	h.links[1].full = true
	h.links[1].mu.Unlock()
	h.lose(0)
	h.lead(1, 200, true)
	eventually(t, "what there is room for", func() bool { return len(h.sent(1)) == 2*resendBatch })
	late := h.ask(time.Second)
	if err := <-late; !errors.Is(err, ErrOverloaded) {
		t.Errorf("a new request: %v", err)
	}
	h.links[1].mu.Lock()
	h.links[1].full = false
	h.links[1].mu.Unlock()
	sent := h.got(t, 1, requests)
	for i, m := range sent {
		if i > 0 && m.Deadline < sent[i-1].Deadline {
			t.Fatalf("request %d is due before the one sent before it", i)
		}
		h.output(m.Request, wire.ReasonNone)
	}
	for _, a := range all {
		if err := <-a; err != nil {
			t.Fatal(err)
		}
	}
	allFree(t, h.Client)
}

// A client that is closed while nobody leads has answered all, and takes nothing more.
func TestCloseWhileNobodyLeads(t *testing.T) {
	h := newMembers(t, 2, nil)
	h.lead(0, 100, true)
	first := h.ask(0)
	h.lose(0)
	second := h.ask(0)
	h.Close()
	for _, a := range []chan error{first, second, h.ask(0)} {
		if err := <-a; !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
	}
	if h.Ready() {
		t.Error("ready after Close")
	}
	allFree(t, h.Client)
}

// A group without a leader for long is away: its requests are answered at once.
func TestVacantForLong(t *testing.T) {
	h := newMembers(t, 2, nil)
	h.lead(0, 100, true)
	h.lose(0)
	h.g.vacant.Store(int64(mono.Now().Add(-vacantMax)))
	if err := <-h.ask(0); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("%v", err)
	}
	if e, _ := h.Model("m", ""); e.Ready || h.Ready() || h.Serving() {
		t.Errorf("%+v, ready %v, serving %v", e, h.Ready(), h.Serving())
	}
	allFree(t, h.Client)
}

// An image that is decoded while nobody leads goes to who leads next, and so does what was reserved
// for the scheduler before.
func TestImageAndReservationOverATakeOver(t *testing.T) {
	n := loopback.New()
	doc := testModels()
	for i := range doc.Entries {
		doc.Entries[i].Spec.SLO = 20 * mono.Second
	}
	other := catalog.Catalogue{Epoch: 5}
	for i, e := range doc.Entries {
		e.ID = wire.ModelID(20 - i)
		other.Entries = append(other.Entries, e)
	}
	a, b := newClusterAt(t, n, "inproc:a", doc), newClusterAt(t, n, "inproc:b", other)
	a.says(100, true)
	b.says(100, false)
	client := a.dial(func(o *Options) { o.Scheduler = "inproc:a+inproc:b" })
	eventually(t, "b", func() bool { return client.uplinks[1].told() })
	var r Reservation
	if err := client.Reserve(&r, "echo", ""); err != nil {
		t.Fatal(err)
	}
	a.kill()
	eventually(t, "nobody leads", func() bool { return client.groups[0].leads.Load() == nil })
	answers := make(chan error, 2)
	go func() {
		_, err := client.InferReserved(context.Background(), &r, 0)
		answers <- err
	}()
	client.InferAsync(context.Background(), Request{Model: "image", Image: grey(t, 2)}, func(_ *Response, err error) { answers <- err })
	eventually(t, "both to wait", func() bool { return client.groups[0].waiting() == 2 })
	b.says(200, true)
	for range 2 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	allFree(t, client)
}

// The new leader has another version only: what the old leader may have begun is not run as that
// one, since the old one's output would be taken for it; what was not sent yet, and asked for none, is.
func TestAnotherVersionAtTheNewLeader(t *testing.T) {
	h := newMembers(t, 2, nil)
	h.lead(0, 100, true)
	sent := h.ask(0)
	h.got(t, 0, 1)
	h.change(1, catalog.Changes{Gone: []wire.ModelID{idOf(1)}})
	h.change(1, catalog.Changes{Models: []catalog.Served{{ID: idOf(1), DeviceType: "e",
		Spec: catalog.ModelSpec{Name: "m", Version: "2", SLO: 20 * mono.Second, Inputs: vector(4), Outputs: vector(4)}}}})
	h.lead(0, 100, false)
	waits := h.ask(0)
	h.lead(1, 200, true)
	h.g.grace.Store(0)
	if err := <-sent; !errors.Is(err, ErrUnavailable) {
		t.Errorf("sent before: %v", err)
	}
	h.output(h.got(t, 1, 1)[0].Request, wire.ReasonNone)
	if err := <-waits; err != nil {
		t.Errorf("not sent before: %v", err)
	}
	allFree(t, h.Client)
}
