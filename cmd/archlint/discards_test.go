package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDiscards holds this very tree to the list of what may be lost.
func TestDiscards(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles what is not compiled yet")
	}
	all, err := loadTyped("../..")
	if err != nil {
		t.Fatal(err)
	}
	found := discards(all)
	if len(all) < 50 || len(found) < 10 {
		t.Fatalf("%d packages, %d sites: does it see anything?", len(all), len(found))
	}
	for _, f := range checkDiscards(found, stays()) {
		t.Error(f)
	}
}

// linkGo declares what may refuse, and useGo uses it.
const linkGo = `package link

type Link interface {
	Send(b []byte) error
	SendPayload(b, p []byte, release func()) error
	Close(err error) error
}

type Queue[T any] struct{}

func (*Queue[T]) Push(v *T) bool              { return false }
func (*Queue[T]) PushAll(v []T) (n int)       { return 0 }
func (*Queue[T]) PushCount(v []T) (int, error) { return 0, nil }
func (*Queue[T]) Len() int                    { return 0 }

func Report(int) error { return nil }
func Sender() error    { return nil }
`

const useGo = `package use

import (
	"errors"

	"` + module + `/link"
)

type user[T any] struct {
	l       link.Link
	q       *link.Queue[T]
	deliver func(T) error
	c       chan T
	tokens  chan struct{}
}

func (u *user[T]) loses(v T) {
	_ = u.l.Send(nil)
	u.l.Send(nil)
	go u.l.Send(nil)
	defer u.l.SendPayload(nil, nil, nil)
	u.q.Push(&v)
	_, _ = u.q.PushCount(nil)
	n, _ := u.q.PushCount(nil)
	_ = u.q.PushAll(nil)
	(u.deliver(v))
	_ = link.Report(n)
	func() { _ = link.Report(1) }()
	select {
	case u.c <- v:
	default:
	}
	if err := u.l.Send(nil); err != nil {
		return
	}
	for !u.q.Push(&v) {
		if u.q.PushAll(nil) == 0 {
			break
		}
	}
}

func keeps(u *user[int]) (err error) {
	if err := u.l.Send(nil); err != nil {
		return err
	}
	if !u.q.Push(nil) {
		return errors.New("full")
	}
	for range 3 {
		if err = u.l.Send(nil); err != nil {
			break
		}
	}
	_ = u.l.Close(nil)
	_ = link.Sender()
	_ = u.q.Len()
	_ = errors.New("not ours to send")
	select {
	case u.tokens <- struct{}{}:
	default:
	}
	select {
	case u.c <- 1:
	default:
		err = errors.New("full")
	}
	return errors.Join(err, link.Report(1), u.l.Send(nil))
}
`

// TestDiscardsBite plants one of each kind beside one of each that is none.
func TestDiscardsBite(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "go.mod"), "module "+module+"\n\ngo 1.26\n")
	write(t, filepath.Join(root, "link", "link.go"), linkGo)
	write(t, filepath.Join(root, "use", "use.go"), useGo)
	write(t, filepath.Join(root, "usetest", "use.go"), "package usetest\n\nimport \""+module+"/link\"\n\nfunc Use() { _ = link.Report(1) }\n")
	all, err := loadTyped(root)
	if err != nil {
		t.Fatal(err)
	}
	found := discards(all)
	var calls []string
	for _, d := range found {
		if d.file != "use/use.go" || d.in != "user.loses" {
			t.Errorf("found %+v", d)
		}
		calls = append(calls, d.call)
	}
	want := []string{"Link.Send", "Link.Send", "Link.Send", "Link.SendPayload", "Queue.Push", "Queue.PushCount", "Queue.PushCount", "Queue.PushAll", "deliver", "Report", "Report", "channel", "Link.Send", "Queue.PushAll"}
	if !slices.Equal(calls, want) {
		t.Errorf("found %q\nwant  %q", calls, want)
	}
	checkList(t, found)
}

// checkList: a site that is not listed, one that is gone, one more than listed, and one without
// a reason are findings; a list that fits has none.
func checkList(t *testing.T, found []discard) {
	t.Helper()
	why := "it is only a test's, and that is the reason"
	fits := []stay{
		{"use/use.go", "user.loses", "Link.Send", 4, why}, {"use/use.go", "user.loses", "Link.SendPayload", 0, why}, {"use/use.go", "user.loses", "Queue.Push", 0, why},
		{"use/use.go", "user.loses", "Queue.PushCount", 2, why}, {"use/use.go", "user.loses", "Queue.PushAll", 2, why}, {"use/use.go", "user.loses", "deliver", 0, why},
		{"use/use.go", "user.loses", "Report", 2, why}, {"use/use.go", "user.loses", "channel", 1, why},
	}
	if out := checkDiscards(found, fits); len(out) > 0 {
		t.Errorf("a list that fits: %q", out)
	}
	cases := map[string]func(l []stay) []stay{
		"use/use.go:19: user.loses throws away that Link.Send": func(l []stay) []stay { return l[1:] },
		"listed 2 times, found 4 times":                        func(l []stay) []stay { l[0].times = 2; return l },
		"gone: Link.Send: listed 1 times, found 0 times":       func(l []stay) []stay { return append(l, stay{"use/use.go", "gone", "Link.Send", 0, why}) },
		"Queue.PushAll: no reason":                             func(l []stay) []stay { l[4].why = ""; return l },
	}
	for want, change := range cases {
		if out := strings.Join(checkDiscards(found, change(slices.Clone(fits))), "\n"); !strings.Contains(out, want) {
			t.Errorf("findings %q, want one with %q", out, want)
		}
	}
}
