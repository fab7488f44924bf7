package frontend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// labelled is a client whose scheduler told it of model "l" with labels, and of "plain"
// without; id is the labels' digest.
func labelled(t *testing.T, names ...string) (c *Client, l *fakeLink, id catalog.Digest) {
	t.Helper()
	_, id, err := catalog.EncodeLabels(names)
	if err != nil {
		t.Fatal(err)
	}
	c, l = alone(t, nil), &fakeLink{}
	with := catalog.ModelSpec{Name: "l", Version: "1", Inputs: vector(1), Outputs: vector(2), LabelsID: id}
	plain := catalog.ModelSpec{Name: "plain", Version: "1", Inputs: vector(1), Outputs: vector(2)}
	admit(c, l, catalog.Served{ID: 0, DeviceType: "e", Spec: with}, catalog.Served{ID: 1, DeviceType: "e", Spec: plain})
	return c, l, id
}

func admit(c *Client, l *fakeLink, models ...catalog.Served) {
	c.tell(l, wire.DocAdmitted, catalog.Admitted{Epoch: 1})
	c.tell(l, wire.DocChanges, catalog.Changes{Epoch: 1, Serial: 1, Models: models})
}

// eventually waits for what happens on another goroutine.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

// Many who want the same labels ask once, and who comes later does not ask.
func TestLabelsAskedOnce(t *testing.T) {
	c, l, id := labelled(t, "cat", "dog")
	var all sync.WaitGroup
	defer all.Wait()
	begin := time.Now()
	for range 50 {
		all.Go(func() {
			if got, err := c.Labels(t.Context(), "l", ""); err != nil || !slices.Equal(got, []string{"cat", "dog"}) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	eventually(t, "a question", func() bool { return l.asked() > 0 })
	time.Sleep(labelsAgain / 5)                                // the other 49 come
	n, most := l.asked(), 1+int(time.Since(begin)/labelsAgain) // more only where this machine takes its time
	if n > most || l.want(0) != id {
		t.Errorf("%d questions, want %d, for %s, want %s", n, most, l.want(0), id)
	}
	c.tell(l, wire.DocLabels, []string{"cat", "dog"})
	all.Wait()
	n = l.asked()
	if got, err := c.Labels(t.Context(), "l", "1"); err != nil || len(got) != 2 || l.asked() != n {
		t.Errorf("known labels: %v, %v, %d questions more", got, err, l.asked()-n)
	}
	c.lose(l)
	if got, err := c.Labels(t.Context(), "l", ""); err != nil || len(got) != 2 {
		t.Errorf("known labels without a scheduler: %v, %v", got, err)
	}
}

// A question without an answer is asked again, also over a new link; a full link is not
// cut for it.
func TestLabelsAskedAgain(t *testing.T) {
	c, l, _ := labelled(t, "cat")
	l.full = true
	got := make(chan error, 1)
	go func() {
		_, err := c.Labels(t.Context(), "l", "")
		got <- err
	}()
	time.Sleep(labelsAgain / 5)
	l.mu.Lock()
	l.full = false
	l.mu.Unlock()
	eventually(t, "a question once there is room", func() bool { return l.asked() == 1 })
	eventually(t, "it is asked again", func() bool { return l.asked() == 2 })
	if err := l.cause(); err != nil {
		t.Errorf("the link was cut: %v", err)
	}
	c.lose(l)
	next := &fakeLink{}
	c.tell(next, wire.DocAdmitted, catalog.Admitted{Epoch: 2})
	eventually(t, "it is asked over the new link", func() bool { return next.asked() > 0 })
	c.tell(next, wire.DocLabels, []string{"cat"})
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// Who gets no answer is told so when its context ends, or the client.
func TestLabelsDoNotCome(t *testing.T) {
	c, _, _ := labelled(t, "cat")
	unavailable := func(err error) {
		t.Helper()
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "labels did not come") || !strings.Contains(err.Error(), "model l") {
			t.Errorf("%v", err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Labels(ctx, "l", "")
	unavailable(err)
	got := make(chan error, 1)
	go func() {
		_, err := c.Labels(context.Background(), "l", "")
		got <- err
	}()
	time.Sleep(time.Millisecond)
	c.Close()
	unavailable(<-got)
}

// What has no labels has none without a question, and what is not there is unknown.
func TestLabelsOfNothing(t *testing.T) {
	c, l, _ := labelled(t, "cat")
	if got, err := c.Labels(t.Context(), "plain", ""); got != nil || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	for _, version := range []string{"", "7"} {
		name := map[string]string{"": "nobody", "7": "l"}[version]
		if _, err := c.Labels(t.Context(), name, version); !errors.Is(err, ErrUnknownModel) {
			t.Errorf("%s/%s: %v", name, version, err)
		}
	}
	if _, err := alone(t, nil).Labels(t.Context(), "l", ""); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without a catalogue: %v", err)
	}
	if n := l.asked(); n != 0 {
		t.Errorf("%d questions", n)
	}
}

// Labels that nobody asked for are not kept, nor are more than labelsKept; what are no
// labels is not kept, is said, and cuts no link.
func TestLabelsBounded(t *testing.T) {
	c, l, id := labelled(t, "cat")
	var said bytes.Buffer
	c.labels.bad = newLabels(zerolog.New(&said)).bad
	c.tell(l, wire.DocLabels, []string{"cat"})
	if _, ok := c.labels.find(id); ok {
		t.Error("labels were kept that nobody asked for")
	}
	for i := range labelsKept + 10 {
		names := []string{"label", string(rune('a' + i%26)), time.Duration(i).String()}
		payload, err := json.Marshal(names)
		if err != nil {
			t.Fatal(err)
		}
		c.labels.ask(l, catalog.DigestOf(payload))
		c.tell(l, wire.DocLabels, names)
	}
	if n := len(c.labels.known); n == 0 || n > labelsKept || len(c.labels.asked) != 0 {
		t.Errorf("%d labels are kept, %d are asked for", n, len(c.labels.asked))
	}
	known := len(c.labels.known)
	for range 3 {
		c.tell(l, wire.DocLabels, 7)
		c.tell(l, wire.DocLabels, []string{strings.Repeat("x", 5000)})
	}
	if err := l.cause(); err != nil || !c.Ready() || len(c.labels.known) != known {
		t.Errorf("%v; %d labels are kept, %d were", err, len(c.labels.known), known)
	}
	c.Close()
	if said := said.String(); !strings.Contains(said, "labels") || strings.Count(said, "\n") > 3 {
		t.Errorf("the log has %q", said)
	}
}
