package load

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

func TestJSONData(t *testing.T) {
	for _, c := range []struct {
		kind catalog.DataType
		data string
		want string
	}{
		{catalog.Bool, "\x01\x00", "[true,false]"},
		{catalog.Uint8, "\xff\x01", "[255,1]"},
		{catalog.Int8, "\xff\x01", "[-1,1]"},
		{catalog.Uint16, "\xff\xff", "[65535]"},
		{catalog.Int16, "\xff\xff", "[-1]"},
		{catalog.Uint32, "\x01\x00\x00\x80", "[2147483649]"},
		{catalog.Int32, "\xfe\xff\xff\xff", "[-2]"},
		{catalog.Uint64, "\x00\x00\x00\x00\x00\x00\x00\x80", "[9223372036854775808]"},
		{catalog.Int64, "\xff\xff\xff\xff\xff\xff\xff\xff", "[-1]"},
		{catalog.FP16, "\x00\x00\x00\x00", "[0,0]"},
		{catalog.FP32, "\x00\x00\x80\x3f\x00\x00\x00\x00", "[1,0]"},
		{catalog.FP64, "\x00\x00\x00\x00\x00\x00\xf8\x3f", "[1.5]"},
		{catalog.Bytes, "\x02\x00\x00\x00a\"\x00\x00\x00\x00", `["a\"",""]`},
		{catalog.FP32, "", "[]"},
	} {
		got, err := jsonData(frontend.Tensor{Name: "x", Type: c.kind, Data: []byte(c.data)})
		if err != nil || string(got) != c.want {
			t.Errorf("%s %q: %s, %v, want %s", c.kind, c.data, got, err, c.want)
		}
	}
	if _, err := jsonData(frontend.Tensor{Name: "x", Type: catalog.Bytes, Data: []byte("\xff\x00\x00\x00a")}); err == nil {
		t.Error("an element beyond the tensor was taken")
	}
}

// What comes back is an output only if it holds one; what fails is kept in its words.
func TestHTTPReplies(t *testing.T) {
	inputs := []catalog.TensorSpec{{Name: "x", Type: catalog.FP32, Shape: []int64{1, 2}}}
	for name, c := range map[string]struct {
		binary    bool
		reply     func(w http.ResponseWriter)
		want      Answer
		complaint string
	}{
		"an output":             {false, says(200, `{"outputs":[],"parameters":{"batch_size": 7}}`), Answer{BatchSize: 7}, ""},
		"an odd batch size":     {false, says(200, `{"outputs":[],"parameters":{"batch_size":"many"}}`), Answer{}, ""},
		"an endless batch size": {false, says(200, `{"outputs":[],"batch_size":99999999999999999999999}`), Answer{BatchSize: 9999999}, ""},
		"an error in a 200":     {false, says(200, `{"error":"no GPU"}`), Answer{Reason: "no_outputs"}, "200 OK: no GPU"},
		"an error of its own":   {false, says(500, `{"error":{"code":3}}`), Answer{Reason: "http_500"}, `500 Internal Server Error: {"code":3}`},
		"a page":                {false, says(404, "<p>not\nhere"), Answer{Reason: "http_404"}, "404 Not Found: <p>not here"},
		"a long page":           {false, says(400, strings.Repeat("a", 400)), Answer{Reason: "http_400"}, "400 Bad Request: " + strings.Repeat("a", 300) + " ..."},
		"our overload": {false, func(w http.ResponseWriter) {
			w.Header().Set("X-Symphony-Reason", "full")
			says(429, `{"error":"full"}`)(w)
		}, Answer{Reason: "full"}, ""},
		"our refusal": {false, func(w http.ResponseWriter) {
			w.Header().Set("X-Symphony-Reason", "bad_request")
			says(400, `{"error":"no such shape"}`)(w)
		}, Answer{Reason: "bad_request"}, "400 Bad Request: no such shape"},
		"binary": {true, func(w http.ResponseWriter) {
			w.Header().Set("Inference-Header-Content-Length", "14")
			io.WriteString(w, `{"outputs":[]}"batch_size":9`)
		}, Answer{}, ""},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if isBinary := r.Header.Get("Inference-Header-Content-Length") != ""; isBinary != c.binary || r.URL.Path != "/a/v2/models/m 1/infer" {
				w.WriteHeader(http.StatusTeapot)
				return
			}
			c.reply(w)
		}))
		target, err := NewHTTPTarget(HTTPOptions{URL: server.URL + "/a/", Senders: 1, Binary: c.binary}, []ModelInput{MakeInputAs("m 1", inputs, 1)})
		if err != nil {
			t.Fatal(err)
		}
		answers := make(chan Answer, 1)
		target.Send(0, 10*mono.Second, func(a Answer) { answers <- a })
		if got := <-answers; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if got := target.Complaints()[c.want.Reason]; (got == "") != (c.complaint == "") || !strings.HasSuffix(got, ": "+c.complaint) && got != "" {
			t.Errorf("%s: complaint %q, want %q", name, got, c.complaint)
		}
		target.Close()
		server.Close()
	}
}

func says(status int, body string) func(w http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}
