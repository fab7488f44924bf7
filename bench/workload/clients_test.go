package workload

import (
	"errors"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// list is a Source of given arrivals.
type list struct {
	at    []mono.Time
	model int
}

func (l *list) Next() (mono.Time, int, bool) {
	if len(l.at) == 0 {
		return mono.Never, 0, false
	}
	at := l.at[0]
	l.at = l.at[1:]
	return at, l.model, true
}

func take(t *testing.T, c *Clients, want ...arrival) {
	t.Helper()
	for i, w := range want {
		at, model, ok := c.Peek()
		if a, m, k := c.Next(); a != at || m != model || k != ok {
			t.Fatalf("arrival %d: Next says %v of model %d, Peek said %v of model %d", i, a, m, at, model)
		}
		if !ok || at != w.at || model != w.model {
			t.Fatalf("arrival %d: %v of model %d (%v), want %v of model %d", i, at, model, ok, w.at, w.model)
		}
	}
}

// Each client has one request open: there is no arrival without an answer.
func TestClients(t *testing.T) {
	ms := mono.Time(mono.Millisecond)
	c, err := NewClients([]int{2, 1, 0}, mono.Millisecond, 3*mono.Millisecond, &list{[]mono.Time{0, 5 * ms}, 2})
	if err != nil {
		t.Fatal(err)
	}
	take(t, c, arrival{0, 0}, arrival{0, 2}, arrival{1 * ms, 1}, arrival{2 * ms, 0})
	c.Answered(3*ms, 2) // nobody waits for it
	take(t, c, arrival{5 * ms, 2})
	if at, _, ok := c.Next(); ok || at != mono.Never {
		t.Fatalf("an arrival at %v while all clients wait", at)
	}
	c.Answered(8*ms, 1)
	c.Answered(6*ms, 0)
	take(t, c, arrival{7 * ms, 0}, arrival{9 * ms, 1})
	if _, _, ok := c.Peek(); ok {
		t.Fatal("one client has two requests open")
	}
}

// What an answer brings may come before what was seen by Peek.
func TestClientsComeBefore(t *testing.T) {
	ms := mono.Time(mono.Millisecond)
	c, err := NewClients([]int{1}, 2*mono.Millisecond, 0, &list{[]mono.Time{9 * ms}, 1})
	if err != nil {
		t.Fatal(err)
	}
	take(t, c, arrival{0, 0})
	if at, _, _ := c.Peek(); at != 9*ms {
		t.Fatalf("next at %v, want 9 ms", at)
	}
	c.Answered(4*ms, 0)
	take(t, c, arrival{6 * ms, 0}, arrival{9 * ms, 1})
}

func TestClientsRefused(t *testing.T) {
	for name, f := range map[string]func() (*Clients, error){
		"none":     func() (*Clients, error) { return NewClients([]int{0}, 1, 1, nil) },
		"negative": func() (*Clients, error) { return NewClients([]int{-1, 2}, 1, 1, nil) },
		"past":     func() (*Clients, error) { return NewClients([]int{1}, -1, 1, nil) },
		"at once":  func() (*Clients, error) { return NewClients([]int{1}, 0, 1, nil) },
	} {
		if c, err := f(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
}
