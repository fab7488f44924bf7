package malformed

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
)

// Target is the model that the table is made for: one FP32 input.
type Target struct {
	Model   string
	Input   string
	Output  string
	Shape   []int64 // of one item, without the batch dimension
	Batch   bool    // the model takes a batch dimension
	BodyMax int64   // the server's limit of a body
}

// Good is a request that must be answered with 200, for the traffic beside.
func (t Target) Good() []byte {
	return t.post("", t.JSON(t.dims(), "FP32", list("0.5", t.elements(), ","), ""))
}

func (t Target) path() string { return "/v2/models/" + t.Model + "/infer" }

func (t Target) elements() int { return count(t.Shape) }

func count(shape []int64) int {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return int(n)
}

// dims is the shape of one item as clients send it.
func (t Target) dims() string {
	out := dims(t.Shape)
	if t.Batch {
		out = "1," + out
	}
	return out
}

func dims(shape []int64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", ","), "[]")
}

func list(s string, n int, between string) string {
	return strings.TrimSuffix(strings.Repeat(s+between, n), between)
}

// JSON is an inference request; more goes before its inputs.
func (t Target) JSON(shape, datatype, data, more string) string {
	return fmt.Sprintf(`{%s"inputs":[{"name":%q,"shape":[%s],"datatype":%q,"data":[%s]}]}`, more, t.Input, shape, datatype, data)
}

// renamed puts another input's name into a request.
func (t Target) renamed(body, name string) string {
	return strings.Replace(body, fmt.Sprintf(`"name":%q`, t.Input), `"name":"`+name+`"`, 1)
}

// announced is an inference request with a binary tensor of n bytes.
func (t Target) announced(n string) string {
	return fmt.Sprintf(`{"inputs":[{"name":%q,"shape":[%s],"datatype":"FP32","parameters":{"binary_data_size":%s}}]}`, t.Input, t.dims(), n)
}

// post is a request to the model with further header lines.
func (t Target) post(headers, body string) []byte { return request("POST", t.path(), headers, body) }

func request(method, path, headers, body string) []byte {
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: symphony\r\nContent-Length: %d\r\n%s\r\n%s", method, path, len(body), headers, body)
}

func header(n int) string { return fmt.Sprintf("Inference-Header-Content-Length: %d\r\n", n) }

func raw(b []byte) func(io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(b); return err }
}

// endless writes head and then piece until the server has had enough.
func endless(head, piece string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, head)
		for err == nil {
			_, err = io.WriteString(w, piece)
		}
		return nil
	}
}

// bomb is n zeros, gzipped.
func bomb(n int64) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	zeros := make([]byte, 1<<20)
	for ; n > 0; n -= int64(len(zeros)) {
		_, _ = z.Write(zeros[:min(n, int64(len(zeros)))])
	}
	_ = z.Close()
	return b.String()
}

func zip(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(s))
	_ = z.Close()
	return b.String()
}
