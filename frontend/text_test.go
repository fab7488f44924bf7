package frontend

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// Text is refused, wherever it stands, by the name of its tensor.
func TestTextIsRefused(t *testing.T) {
	c := newCluster(t)
	text := []catalog.TensorSpec{{Name: "t", Type: catalog.Bytes, Shape: []int64{1}}}
	in, out := c.doc.Entries[1], c.doc.Entries[1]
	in.ID, in.Spec.Name, in.Spec.Inputs = 4, "reads", text
	out.ID, out.Spec.Name, out.Spec.Outputs = 5, "writes", text
	c.doc.Entries = append(c.doc.Entries, in, out)
	client := c.dial(nil)
	element := []byte("\x01\x00\x00\x00a")
	for _, q := range []struct {
		request Request
		want    string
	}{
		{Request{Model: "reads", Inputs: []Tensor{{Name: "t", Type: catalog.Bytes, Shape: []int64{1}, Data: element}}}, `model reads: bad input: its input "t" is BYTES, which is not served`},
		{Request{Model: "writes", Inputs: echo(1).Inputs}, `model writes: bad input: its output "t" is BYTES, which is not served`},
		{Request{Model: "echo", Inputs: []Tensor{{Name: "x", Type: catalog.Bytes, Shape: []int64{4}, Data: element}}}, `input "x" is BYTES (text), which is not served`},
	} {
		if _, err := client.Infer(context.Background(), q.request); !errors.Is(err, ErrBadInput) || !strings.Contains(err.Error(), q.want) {
			t.Errorf("%s: %v, want %q", q.request.Model, err, q.want)
		}
	}
}
