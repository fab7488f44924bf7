package transport

import "strings"

// Refuse makes a refusal of why: it is ErrRejected, and its text is why alone. The side
// that refuses logs it and tells it to its peer, and the peer says who refused.
func Refuse(why error) error { return refusal{why} }

type refusal struct{ why error }

// Error is the reason alone.
func (r refusal) Error() string { return r.why.Error() }

// Unwrap is for errors.Is.
func (r refusal) Unwrap() []error { return []error{ErrRejected, r.why} }

// RejectText is what a Reject tells the peer of err: as seen from there, and without
// saying again that it is a refusal.
func RejectText(err error) string {
	text := strings.TrimPrefix(err.Error(), ErrRejected.Error()+": ")
	if rest, ok := strings.CutPrefix(text, ErrProtocol.Error()); ok {
		text = "this side broke the protocol" + rest
	}
	return text
}
