package executor

import (
	"strings"
	"unicode"

	"github.com/symphony-serving/symphony/transport/wire"
)

// plainText is a model's error as a client gets it: one line of printable characters, of ErrorTextMax bytes at most.
func plainText(err error) string {
	var b strings.Builder
	for _, r := range err.Error() {
		if unicode.IsSpace(r) {
			r = ' '
		}
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			r = '?'
		}
		if b.Len()+len(string(r)) > wire.ErrorTextMax {
			break
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}

// answerAlone sends an item's frontend the model's error, and that the model failed on this item alone.
func (o *order) answerAlone(i int, text string) {
	l := o.exec.linksOf(&o.Order).Link(o.Items[i].Frontend)
	if l == nil {
		o.exec.unreached(&o.Order)
		return
	}
	m := answerOf(&o.Items[i], &o.Order, wire.ReasonExecution)
	m.Flags |= wire.OutputAlone
	words := []byte(text)
	if err := l.SendPayload(m.Append(nil, len(words)), words, nil); err != nil {
		o.exec.reasonLater(l, &m, words, &o.Items[i], o.ModelIndex)
	}
}
