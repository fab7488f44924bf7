package ingress

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

func TestDescriptions(t *testing.T) {
	s := start(t, Config{Version: "v1"})
	for _, c := range []struct {
		method, path string
		status       int
		text         string
	}{
		{"GET", "/", 200, "/v1/classify/{model}"},
		{"GET", "/v2", 200, `"version":"v1"`},
		{"GET", "/v2/", 200, `"binary_tensor_data"`},
		{"GET", "/v2/health/live", 200, `{"live":true}`},
		{"GET", "/v2/health/ready", 200, `{"ready":true}`},
		{"GET", "/v2/models/digits", 200, `"shape":[-1,784]`},
		{"GET", "/v2/models/flat", 200, `"shape":[4]`},
		{"GET", "/v2/models/two", 200, `"versions":["0","1"]`},
		{"GET", "/v2/models/digits/versions/1", 200, `"datatype":"FP32"`},
		{"GET", "/v2/models/digits/versions/7", 404, "Request for unknown model: 'digits' version 7 is not found"},
		{"GET", "/v2/models/nope", 404, "Request for unknown model: 'nope' is not found"},
		{"GET", "/v2/models/nope/ready", 404, "unknown model"},
		{"GET", "/v2/models/digits/ready", 200, `"ready":true`},
		{"GET", "/v2/models/digits/versions/1/ready", 200, `"ready":true`},
		{"GET", "/v2/models/down/ready", 503, "no backend serves model down"},
		{"GET", "/v2/models/digits/config", 200, `"data_type":"TYPE_FP32","dims":[784]`},
		{"GET", "/v2/models/two/versions/1/config", 200, `"data_type":"TYPE_UINT8"`},
		{"GET", "/v2/models/two/config", 200, `"priority_levels":0`}, // they would go before deadlines
		{"GET", "/v2/models/flat/config", 200, `"slo_ms":{"string_value":"100"}`},
		{"GET", "/v2/models/digits/stats", 200, `"model_stats":[{`},
		{"GET", "/v2/models/digits/versions/1/stats", 200, `"compute_infer"`},
		{"GET", "/v2/models/stats", 200, `"name":"wide"`},
		{"POST", "/v2/repository/index", 200, `"state":"UNAVAILABLE"`},
		{"POST", "/v2/repository/models/digits/load", 200, "{}"},
		{"POST", "/v2/repository/models/nope/load", 400, "failed to load 'nope'"},
		{"POST", "/v2/repository/models/digits/unload", 501, "digits"},
		{"POST", "/v2/repository/models/nope/unload", 404, "unknown model"},
		{"GET", "/v2/logging", 200, "log_verbose_level"},
		{"GET", "/v2/models/nope/trace/setting", 404, "unknown model"},
		{"POST", "/v2/logging", 200, "log_verbose_level"},
		{"POST", "/v2/models/digits/trace/setting", 200, "trace_level"},
		{"POST", "/v2/models/nope/trace/setting", 404, "unknown model"},
		{"GET", "/v2/trace/setting", 200, "trace_level"},
		{"GET", "/v2/models/digits/trace/setting", 200, "OFF"},
		{"GET", "/v2/systemsharedmemory/status", 200, "[]"},
		{"GET", "/v2/cudasharedmemory/region/r/status", 400, "not supported"},
		{"POST", "/v2/cudasharedmemory/region/r/register", 501, "not supported"},
		{"POST", "/v2/cudasharedmemory/unregister", 200, "{}"},
		{"GET", "/metrics", 200, "symphony_http_requests_in_flight 1"},
		{"GET", "/nowhere", 404, "GET / lists"},
		{"GET", "/v2/models//infer", 404, "no such path"},
		{"GET", "/v2/models/digits/infer", 405, "only POST"},
		{"DELETE", "/v2/models/digits", 405, "only GET"},
		{"HEAD", "/v2/health/live", 200, ""},
	} {
		t.Run(c.method+c.path, func(t *testing.T) {
			s.t = t
			s.want(s.do(c.method, c.path, ""), c.status, c.text)
		})
	}
}

// What is to be changed is refused, and so is what is none of them; without anything to change they are told.
func TestSettingsAreFixed(t *testing.T) {
	s := start(t, Config{})
	for _, c := range []struct {
		path, body string
		status     int
		text       string
	}{
		{"/v2/logging", "{}", 200, `"log_info":true`},
		{"/v2/logging", `{"log_info":false}`, 501, "configuration"},
		{"/v2/logging", `{"log_inof":false}`, 400, "log_inof: there is no such field"},
		{"/v2/logging", `{`, 400, "no JSON object"},
		{"/v2/trace/setting", "{}", 200, `"trace_rate":"1000"`},
		{"/v2/trace/setting", `{"trace_rate":"5"}`, 501, "configuration"},
		{"/v2/models/digits/trace/setting", `{"trace_rate":null}`, 501, "configuration"},
		{"/v2/models/nobody/trace/setting", `{"trace_rate":"5"}`, 404, "unknown model"},
		{"/v2/models/nobody/trace/setting", `{"nonsense":1}`, 404, "unknown model"},
	} {
		s.want(s.do("POST", c.path, c.body), c.status, c.text)
	}
}

func TestNotReady(t *testing.T) {
	s := start(t, Config{})
	s.fake.down.Store(true)
	s.want(s.do("GET", "/v2/health/ready", ""), 503, "scheduler cannot be reached")
	s.want(s.do("GET", "/v2/models/digits/ready", ""), 503, "not ready")
	s.want(s.do("GET", "/v2/health/live", ""), 200, "true")
}

// raw is one item of each type: six elements, as bytes and as JSON.
func items() map[string][2]string {
	le := func(v any) string {
		var b bytes.Buffer
		binary.Write(&b, binary.LittleEndian, v)
		return b.String()
	}
	return map[string][2]string{
		"BOOL":   {"\x01\x00\x01\x01\x00\x00", "true,false,true,true,false,false"},
		"UINT8":  {le([]uint8{0, 1, 2, 3, 4, 255}), "0,1,2,3,4,255"},
		"UINT16": {le([]uint16{0, 1, 2, 3, 4, 65535}), "0,1,2,3,4,65535"},
		"UINT32": {le([]uint32{0, 1, 2, 3, 4, math.MaxUint32}), "0,1,2,3,4,4294967295"},
		"UINT64": {le([]uint64{0, 1, 2, 3, 4, math.MaxUint64}), "0,1,2,3,4,18446744073709551615"},
		"INT8":   {le([]int8{0, 1, 2, 3, -128, 127}), "0,1,2,3,-128,127"},
		"INT16":  {le([]int16{0, 1, 2, 3, -32768, 32767}), "0,1,2,3,-32768,32767"},
		"INT32":  {le([]int32{0, 1, 2, 3, math.MinInt32, math.MaxInt32}), "0,1,2,3,-2147483648,2147483647"},
		"INT64":  {le([]int64{0, 1, 2, 3, math.MinInt64, math.MaxInt64}), "0,1,2,3,-9223372036854775808,9223372036854775807"},
		"FP16":   {le([]uint16{0, 0x3c00, 0x4000, 0xc000, 0x7bff, 1}), ""},
		"FP32":   {le([]float32{0, 1.5, -2.25, 1e-30, 3e38, 0.1}), "0,1.5,-2.25,1e-30,3e+38,0.1"},
		"FP64":   {le([]float64{0, 1.5, -2.25, 1e-300, 3e300, 0.1}), "0,1.5,-2.25,1e-300,3e+300,0.1"},
	}
}

// TestTypes sends each type in JSON and as bytes, asks for it in both forms,
// alone and as a batch of three.
func TestTypes(t *testing.T) {
	s := start(t, Config{})
	for name, item := range items() {
		for _, n := range []int{0, 1, 3} { // 0: without a batch dimension
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				s.t = t
				k := max(n, 1)
				shape, path := "[2,3]", "/v2/models/echo-"+name+"/infer"
				if n > 0 {
					shape = fmt.Sprintf("[%d,2,3]", n)
				}
				bytesIn := strings.Repeat(item[0], k)
				header := fmt.Sprintf(`{"id":"7","parameters":{"binary_data_output":true},"inputs":[{"name":"x","shape":%s,"datatype":%q,"parameters":{"binary_data_size":%d}}]}`, shape, name, len(bytesIn))
				body, length := binaryBody(header, bytesIn)
				a := s.do("POST", path, body, "Inference-Header-Content-Length", length)
				checkBinaryReply(t, a, name, shape, bytesIn)
				if item[1] == "" {
					a = s.do("POST", path, strings.Replace(body, "true", "false", 1)+" ", "Inference-Header-Content-Length", fmt.Sprint(len(header)+1))
					return
				}
				list := strings.TrimSuffix(strings.Repeat(item[1]+",", k), ",")
				a = s.do("POST", path, fmt.Sprintf(`{"inputs":[{"data":[%s],"name":"x","shape":%s,"datatype":%q}]}`, list, shape, name))
				s.want(a, 200, `"data":[`+list+`]`)
				s.want(a, 200, `"shape":`+shape)
			})
		}
	}
}

func checkBinaryReply(t *testing.T, a answer, datatype, shape, want string) {
	t.Helper()
	var n int
	fmt.Sscan(a.header.Get("Inference-Header-Content-Length"), &n)
	if a.status != 200 || n == 0 || n > len(a.body) || a.header.Get("Content-Type") != "application/octet-stream" {
		t.Fatalf("answer %d %q %v", a.status, a.body, a.header)
	}
	if got := string(a.body[n:]); got != want {
		t.Errorf("tensor %q, want %q", got, want)
	}
	head := string(a.body[:n])
	for _, piece := range []string{`"id":"7"`, `"datatype":"` + datatype + `"`, `"shape":` + shape, fmt.Sprintf(`"binary_data_size":%d`, len(want))} {
		if !strings.Contains(head, piece) {
			t.Errorf("header %s lacks %s", head, piece)
		}
	}
}

func TestNestedData(t *testing.T) {
	s := start(t, Config{})
	for _, data := range []string{`[1,2,3,4,5,6]`, `[[1,2,3],[4,5,6]]`, `[[[1,2,3],[4,5,6]]]`, `[[1,2,3,4,5,6]]`, " [ [ [1 , 2,3 ] ,[ 4,5,6]\n]\t] "} {
		shape := "[2,3]"
		if strings.Count(data, "[") > 3 || data == `[[1,2,3,4,5,6]]` {
			shape = "[1,2,3]"
		}
		a := s.do("POST", "/v2/models/echo-INT32/infer", fmt.Sprintf(`{"inputs":[{"name":"x","shape":%s,"datatype":"INT32","data":%s}]}`, shape, data))
		s.want(a, 200, `"data":[1,2,3,4,5,6]`)
	}
}

func TestOutputsAskedFor(t *testing.T) {
	s := start(t, Config{})
	in := `"inputs":[{"name":"b","shape":[1,1],"datatype":"UINT8","data":[7]},{"name":"a","shape":[1,2],"datatype":"INT32","data":[5,6]}]`
	s.want(s.do("POST", "/v2/models/two/infer", `{`+in+`,"outputs":[{"name":"q"},{"name":"p"}]}`), 200,
		`"outputs":[{"name":"q","datatype":"UINT8","shape":[1,1],"data":[7]},{"name":"p","datatype":"INT32","shape":[1,2],"data":[5,6]}]`)
	s.want(s.do("POST", "/v2/models/two/infer", `{`+in+`,"outputs":[{"name":"q"}]}`), 200, `"outputs":[{"name":"q","datatype":"UINT8","shape":[1,1],"data":[7]}]`)
	a := s.do("POST", "/v2/models/two/versions/0/infer", `{`+in+`,"outputs":[{"name":"p","parameters":{"binary_data":true}},{"name":"q"}]}`)
	s.want(a, 200, `"model_version":"0"`)
	if !strings.HasSuffix(string(a.body), `"data":[7]}]}`+"\x05\x00\x00\x00\x06\x00\x00\x00") {
		t.Errorf("mixed reply: %q", a.body)
	}
	x := `"inputs":[{"name":"x","shape":[1,784],"datatype":"FP32","data":[` + strings.Repeat("1,", 783) + `1]}]`
	a = s.do("POST", "/v2/models/digits/infer", `{`+x+`,"outputs":[{"name":"logits","parameters":{"classification":2}}]}`)
	s.want(a, 200, `{"name":"logits","datatype":"BYTES","shape":[1,2],"data":["2.000000:1:one","0.000000:0:zero"]}`)
}

func TestParameters(t *testing.T) {
	s := start(t, Config{})
	in := `"inputs":[{"name":"x","shape":[4],"datatype":"FP32","data":[1,2,3,4]}]`
	a := s.do("POST", "/v2/models/flat/infer", `{"id":"a\"b","parameters":{"timeout":2500,"priority":1,"other":[{"x":null}]},`+in+`}`)
	s.want(a, 200, `{"id":"a\"b","model_name":"flat","model_version":"1","parameters":{"queue_us":3000,"fetch_us":1000,"execute_us":5000,"reply_us":1000,"total_us":10000,"slack_us":-2000,"batch_size":4,"gpu":2}`)
	s.fake.cold.Store(true)
	s.want(s.do("POST", "/v2/models/flat/infer", `{`+in+`}`), 200, `"parameters":{"cold":true,"queue_us":3000,`)
	s.fake.cold.Store(false)
	s.want(s.do("POST", "/v2/models/flat/infer", `{"parameters":{"timeout":2500,"priority":1},`+in+`}`), 200, `"parameters":{"queue_us":3000,`)
	if s.fake.last.Timeout != 2500*time.Microsecond || s.fake.last.Priority != 1 {
		t.Errorf("timeout %v, priority %d", s.fake.last.Timeout, s.fake.last.Priority)
	}
	two := `{"parameters":{"priority":%d},"inputs":[{"name":"x","shape":[2,2,3],"datatype":"UINT8","data":[1,1,1,1,1,1,1,1,1,1,1,1]}]}`
	for _, priority := range []int{255, 0} { // of all items of a batch
		if s.want(s.do("POST", "/v2/models/echo-UINT8/infer", fmt.Sprintf(two, priority)), 200, ""); int(s.fake.last.Priority) != priority {
			t.Errorf("priority %d, want %d", s.fake.last.Priority, priority)
		}
	}
	class := `{"parameters":{"class":"%s"},"inputs":[{"name":"x","shape":[%d,2,3],"datatype":"UINT8","data":[1,1,1,1,1,1%s]}]}`
	for name, want := range map[string]wire.Class{"best_effort": wire.ClassBestEffort, "latency": wire.ClassLatency} {
		for items, more := range []string{1: "", 2: ",1,1,1,1,1,1"} {
			if items == 0 {
				continue
			}
			if s.want(s.do("POST", "/v2/models/echo-UINT8/infer", fmt.Sprintf(class, name, items, more)), 200, ""); s.fake.last.Class != want {
				t.Errorf("%s, %d items: class %d", name, items, s.fake.last.Class)
			}
		}
	}
	s.want(s.do("POST", "/v2/models/echo-UINT8/infer", fmt.Sprintf(class, "batch", 1, "")), 400, `parameters.class: \"batch\", must be \"latency\" (the default) or \"best_effort\"`)
	header := `{"parameters":{"priority":%d},"inputs":[{"name":"x","shape":[4],"datatype":"FP32","parameters":{"binary_data_size":16}}]}`
	for _, priority := range []int{7, 7, 0, 300} { // from the connection into the slab; the second has the header of the one before
		body, length := binaryBody(fmt.Sprintf(header, priority), items()["FP32"][0][:16])
		a := s.do("POST", "/v2/models/flat/infer", body, headerLength, length)
		if priority == 300 {
			s.want(a, 400, "parameters.priority: 300, must be 1 (the first) to 255, or 0 for the default")
		} else if s.want(a, 200, ""); int(s.fake.last.Priority) != priority {
			t.Errorf("priority %d, want %d", s.fake.last.Priority, priority)
		}
	}
	if a = s.do("POST", "/v2/models/flat/infer", `{`+in+`}`); strings.Contains(string(a.body), `"id"`) || s.fake.last.Timeout != 0 {
		t.Errorf("no id and no timeout given: %s, timeout %v", a.body, s.fake.last.Timeout)
	}
}

// Who asks for details is told what symphony explain takes, of each item, in a header that of one item alone; others are not.
func TestDetails(t *testing.T) {
	s := start(t, Config{})
	body := `{"parameters":{"details":%s},"inputs":[{"name":"x","shape":[2,2,3],"datatype":"UINT8","data":[1,1,1,1,1,1,1,1,1,1,1,1]}]}`
	a := s.do("POST", "/v2/models/echo-UINT8/infer", fmt.Sprintf(body, "true"))
	if s.want(a, 200, `"gpu":2,"request":"3-ff,3-ff"}`); a.header.Get(requestHeader) != "" {
		t.Errorf("header %q", a.header.Get(requestHeader))
	}
	for range 2 {
		header := `{"parameters":{"details":true},"inputs":[{"name":"x","shape":[4],"datatype":"FP32","parameters":{"binary_data_size":16}}]}`
		body, length := binaryBody(header, items()["FP32"][0][:16])
		if a = s.do("POST", "/v2/models/flat/infer", body, headerLength, length); a.header.Get(requestHeader) != "3-ff" {
			t.Errorf("header %q of %s", a.header.Get(requestHeader), a.body)
		}
	}
	if a = s.do("POST", "/v1/classify/digits?details=true", "\x89PNG"); a.header.Get(requestHeader) != "3-ff" {
		t.Errorf("header %q of %s", a.header.Get(requestHeader), a.body)
	}
	for _, a := range []answer{s.do("POST", "/v2/models/echo-UINT8/infer", fmt.Sprintf(body, "false")), s.do("POST", "/v1/classify/digits", "\x89PNG")} {
		if s.want(a, 200, ""); a.header.Get(requestHeader) != "" || strings.Contains(string(a.body), "request") {
			t.Errorf("header %q of %s", a.header.Get(requestHeader), a.body)
		}
	}
	s.want(s.do("POST", "/v2/models/echo-UINT8/infer", fmt.Sprintf(body, "1")), 400, "parameters.details: ")
}

func TestRawBody(t *testing.T) {
	s := start(t, Config{})
	in := items()["FP32"][0][:16]
	for _, c := range []struct{ model, shape, in string }{{"flat", "[4]", in}, {"echo-FP32", "[1,2,3]", items()["FP32"][0][:24]}} {
		a := s.do("POST", "/v2/models/"+c.model+"/infer", c.in, "Inference-Header-Content-Length", "0")
		s.want(a, 200, fmt.Sprintf(`"shape":%s,"parameters":{"binary_data_size":%d}}]}%s`, c.shape, len(c.in), c.in))
		if n := a.header.Get("Inference-Header-Content-Length"); n != fmt.Sprint(len(a.body)-len(c.in)) {
			t.Errorf("%s: the header has %s bytes of %d", c.model, n, len(a.body))
		}
	}
	s.want(s.do("POST", "/v2/models/flat/infer", in[1:], "Inference-Header-Content-Length", "0"), 400, "15 bytes")
	s.want(s.do("POST", "/v2/models/two/infer", in, "Inference-Header-Content-Length", "0"), 400, "only input")
}

func TestEncodings(t *testing.T) {
	s := start(t, Config{})
	body := `{"inputs":[{"name":"x","shape":[1,784],"datatype":"FP32","data":[` + strings.Repeat("1.25,", 783) + `1.25]}]}`
	pack := func(f func(w io.Writer) io.WriteCloser) string {
		var b bytes.Buffer
		w := f(&b)
		io.WriteString(w, body)
		w.Close()
		return b.String()
	}
	packed := map[string]string{
		"gzip":    pack(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }),
		"deflate": pack(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }),
		"Deflate": pack(func(w io.Writer) io.WriteCloser { z, _ := flate.NewWriter(w, 1); return z }),
	}
	for round := range 2 { // the second one uses pooled readers
		for name, b := range packed {
			a := s.do("POST", "/v2/models/wide/infer", b, "Content-Encoding", name, "Accept-Encoding", strings.ToLower(name))
			if a.status != 200 || a.header.Get("Content-Encoding") != strings.ToLower(name) {
				t.Fatalf("round %d %s: %d %q", round, name, a.status, a.body)
			}
			var r io.Reader
			if name == "gzip" {
				r, _ = gzip.NewReader(bytes.NewReader(a.body))
			} else {
				r, _ = zlib.NewReader(bytes.NewReader(a.body))
			}
			plain, err := io.ReadAll(r)
			if err != nil || !strings.Contains(string(plain), `"data":[1.25,1.25,`) {
				t.Errorf("round %d %s: %v %.80s", round, name, err, plain)
			}
		}
	}
}

func TestAccepted(t *testing.T) {
	for header, want := range map[string]string{"": "", "gzip": "gzip", "deflate": "deflate", "deflate, gzip;q=0.5": "gzip", "gzip;q=0, deflate": "deflate", "br": "", "identity": "", "*": "gzip", "gzip;q=x": ""} {
		if got := accepted([]byte(header)); got != want {
			t.Errorf("Accept-Encoding %q: %q, want %q", header, got, want)
		}
	}
}

// A compressed body in chunks is answered when its last chunk has come, although the connection stays open: a reader of
// gzip asks for more after its end. Bytes after the compressed data are refused, and so is what follows the last chunk.
func TestCompressedChunks(t *testing.T) {
	s := start(t, Config{})
	body := `{"inputs":[{"name":"x","shape":[2,3],"datatype":"UINT8","data":[1,2,3,4,5,6]}]}`
	var gzipped, zlibbed bytes.Buffer
	for _, w := range []io.WriteCloser{gzip.NewWriter(&gzipped), zlib.NewWriter(&zlibbed)} {
		io.WriteString(w, body)
		w.Close()
	}
	for _, c := range []struct {
		name, encoding, packed, after string
		status                        int
	}{
		{"gzip", "gzip", gzipped.String(), "", 200},
		{"two members", "gzip", gzipped.String() + "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x01\x00\x00\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00", "", 200},
		{"deflate", "deflate", zlibbed.String(), "", 200},
		{"gzip, and a request after it", "gzip", gzipped.String(), "GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n", 200},
		{"gzip, and bytes after it", "gzip", gzipped.String() + "x", "", 400},
		{"gzip cut off", "gzip", gzipped.String()[:gzipped.Len()-3], "", 400},
	} {
		for _, cut := range []int{1, 7, 1000} {
			raw := "POST /v2/models/echo-UINT8/infer HTTP/1.1\r\nHost: x\r\nContent-Encoding: " + c.encoding + "\r\nTransfer-Encoding: chunked\r\n\r\n"
			for rest := c.packed; rest != ""; {
				n := min(cut, len(rest))
				raw += fmt.Sprintf("%x\r\n%s\r\n", n, rest[:n])
				rest = rest[n:]
			}
			got := exchangeRaw(t, s.address, raw+"0\r\n\r\n"+c.after)
			if !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", c.status)) || strings.Count(got, "HTTP/1.1 ") != 1 {
				t.Errorf("%s in chunks of %d: %.300q", c.name, cut, got)
			}
		}
	}
}

func TestChunkedBodies(t *testing.T) {
	s := start(t, Config{})
	body := `{"inputs":[{"name":"x","shape":[1,784],"datatype":"FP32","data":[` + strings.Repeat("1.25,", 783) + `1.25]}]}`
	for _, cut := range []int{1, 7, 1000, 100000} {
		raw := "POST /v2/models/wide/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
		for rest := body; rest != ""; {
			n := min(cut, len(rest))
			raw += fmt.Sprintf("%x\r\n%s\r\n", n, rest[:n])
			rest = rest[n:]
		}
		got := exchangeRaw(t, s.address, raw+"0\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 200") || !strings.Contains(got, `"data":[1.25,1.25,`) {
			t.Errorf("chunks of %d: %.300s", cut, got)
		}
	}
}

func TestKeepAliveAfterRefusals(t *testing.T) {
	s := start(t, Config{})
	bad := "POST /v2/models/flat/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nxyz"
	lost := "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nxyz"
	last := "GET /v2/health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	got := exchangeRaw(t, s.address, bad+lost+bad+last)
	if strings.Count(got, "HTTP/1.1 400") != 2 || strings.Count(got, "HTTP/1.1 404") != 1 || strings.Count(got, "HTTP/1.1 200") != 1 {
		t.Errorf("four requests on one connection: %s", got)
	}
}

func TestRefusals(t *testing.T) {
	s := start(t, Config{})
	body := `{"inputs":[{"name":"x","shape":[4],"datatype":"FP32","data":[1,2,3,4]}]}`
	for _, c := range []struct {
		err    func(frontend.Request) error
		status int
		text   string
		reason string
		retry  string
	}{
		{reason(frontend.ErrDropped, wire.ReasonDeadline), 503, "Request timeout expired", "deadline", ""},
		{reason(frontend.ErrDropped, wire.ReasonShed), 429, "Exceeds maximum queue size", "shed", "1"},
		{reason(frontend.ErrDeadlineExceeded, wire.ReasonExpired), 503, "Request timeout expired", "expired", ""},
		{reason(frontend.ErrOverloaded, wire.ReasonFull), 429, "Exceeds maximum queue size", "full", "1"},
		{reason(frontend.ErrOverloaded, wire.ReasonMemory), 429, "Exceeds maximum queue size", "memory", "1"},
		{reason(frontend.ErrDropped, wire.ReasonLate), 503, "Request timeout expired", "late", ""},
		{reason(frontend.ErrDropped, wire.ReasonCold), 503, "dropped", "cold", "1"},
		{reason(frontend.ErrInfeasible, wire.ReasonInfeasible), 400, "infeasible", "infeasible", ""},
		{reason(frontend.ErrUnavailable, wire.ReasonBackendLost), 503, "unavailable", "backend_lost", "1"},
		{reason(frontend.ErrFailed, wire.ReasonExecution), 500, "execution failed", "execution", ""},
		{reason(frontend.ErrBadInput, wire.ReasonInput), 400, "bad input", "input", ""},
		{reason(frontend.ErrUnknownModel, wire.ReasonUnknownModel), 404, "Request for unknown model: 'flat' is not found", "unknown_model", ""},
		{func(frontend.Request) error { panic("boom") }, 500, "internal error: boom", "internal", ""},
	} {
		s.fake.failWith(c.err)
		a := s.do("POST", "/v2/models/flat/infer", body)
		s.want(a, c.status, c.text)
		if a.header.Get(reasonHeader) != c.reason || a.header.Get("Retry-After") != c.retry {
			t.Errorf("%s: reason %q, Retry-After %q", c.text, a.header.Get(reasonHeader), a.header.Get("Retry-After"))
		}
	}
}

// Of what has no output everybody is told what symphony explain takes, whatever the reason; of what no scheduler knew there is nothing to tell.
func TestRefusalsTellTheRequest(t *testing.T) {
	s := start(t, Config{})
	for reason, kind := range map[wire.Reason]error{wire.ReasonDeadline: frontend.ErrDropped, wire.ReasonExpired: frontend.ErrDeadlineExceeded,
		wire.ReasonShed: frontend.ErrDropped, wire.ReasonFull: frontend.ErrOverloaded, wire.ReasonUnavailable: frontend.ErrUnavailable,
		wire.ReasonBackendLost: frontend.ErrUnavailable, wire.ReasonExecution: frontend.ErrFailed} {
		for request, want := range map[wire.RequestID]string{255: "3-ff", 0: ""} {
			s.fake.failWith(func(frontend.Request) error {
				return &frontend.Error{Kind: kind, Reason: reason, Frontend: 3, Request: request}
			})
			if got := s.do("POST", "/v2/models/flat/infer", flatJSON).header.Get(requestHeader); got != want {
				t.Errorf("%v: request %q, want %q", reason, got, want)
			}
		}
	}
}

func TestFullStatus(t *testing.T) {
	s := start(t, Config{FullStatus: 503})
	s.fake.failWith(reason(frontend.ErrOverloaded, wire.ReasonFull))
	a := s.do("POST", "/v2/models/flat/infer", `{"inputs":[{"name":"x","shape":[4],"datatype":"FP32","data":[1,2,3,4]}]}`)
	s.want(a, 503, "Exceeds maximum queue size")
}

// One failing item fails the batch, with its reason.
func TestBatchFails(t *testing.T) {
	s := start(t, Config{})
	s.fake.failWith(func(r frontend.Request) error {
		if r.Inputs[0].Data[0] == 5 {
			return &frontend.Error{Kind: frontend.ErrDropped, Reason: wire.ReasonShed, Frontend: 3, Request: 255}
		}
		return nil
	})
	body := `{"inputs":[{"name":"x","shape":[3,2,3],"datatype":"UINT8","data":[1,1,1,1,1,1,%d,1,1,1,1,1,1,1,1,1,1,1]}]}`
	a := s.do("POST", "/v2/models/echo-UINT8/infer", fmt.Sprintf(body, 5))
	s.want(a, 429, "Exceeds maximum queue size")
	if a.header.Get(reasonHeader) != "shed" || a.header.Get(requestHeader) != "3-ff" {
		t.Errorf("reason %q, request %q, want shed and 3-ff", a.header.Get(reasonHeader), a.header.Get(requestHeader))
	}
	s.want(s.do("POST", "/v2/models/echo-UINT8/infer", fmt.Sprintf(body, 6)), 200, `"shape":[3,2,3]`)
}

func TestClassify(t *testing.T) {
	s := start(t, Config{})
	a := s.do("POST", "/v1/classify/digits?k=2", "\x89PNG...")
	s.want(a, 200, `"label":"one"`)
	var v verdict
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatal(err)
	}
	// softmax of 0, 2, 0
	if want := math.Exp(2) / (math.Exp(2) + 2); len(v.Top) != 2 || math.Abs(v.Probability-want) > 1e-9 || v.BatchSize != 4 || v.SlackMS != -2 || v.LatencyMS != 10 {
		t.Errorf("%s, want probability %v", a.body, want)
	}
	if string(s.fake.last.Image) != "\x89PNG..." {
		t.Errorf("image %q", s.fake.last.Image)
	}
	s.want(s.do("POST", "/v1/classify/digits?k=0", "x"), 400, "k:")
	s.want(s.do("POST", "/v1/classify/digits?timeout_ms=NaN", "x"), 400, "timeout_ms:")
	s.want(s.do("POST", "/v1/classify/digits", ""), 400, "empty")
	s.want(s.do("POST", "/v1/classify/nope", "x"), 404, "unknown model")
	s.want(s.do("POST", "/v1/classify/digits", "--b--", "Content-Type", "multipart/form-data; boundary=b"), 415, "--data-binary")
	s.want(s.do("GET", "/v1/classify/digits", ""), 405, "POST")
}

func TestProbabilities(t *testing.T) {
	if p := probabilities([]float64{0.25, 0.75}); p[0] != 0.25 {
		t.Errorf("probabilities became %v", p)
	}
	if p := probabilities([]float64{1000, 1000}); p[0] != 0.5 {
		t.Errorf("large logits became %v", p)
	}
	if p := probabilities([]float64{-1, 2}); math.Abs(p[0]+p[1]-1) > 1e-12 || p[0] >= p[1] {
		t.Errorf("logits that sum to 1 became %v", p)
	}
}

// perf_analyzer aborts unless the three compute counts are equal.
func TestStatistics(t *testing.T) {
	s := start(t, Config{})
	body := `{"inputs":[{"name":"x","shape":[2,2,3],"datatype":"UINT8","data":[1,1,1,1,1,1,1,1,1,1,1,1]}]}`
	for range 6 {
		s.want(s.do("POST", "/v2/models/echo-UINT8/infer", body), 200, "")
	}
	s.fake.failWith(reason(frontend.ErrDropped, wire.ReasonShed))
	s.want(s.do("POST", "/v2/models/echo-UINT8/infer", body), 429, "")
	a := s.do("GET", "/v2/models/echo-UINT8/stats", "")
	s.want(a, 200, `"inference_count":12`)
	s.want(a, 200, `"execution_count":3`) // twelve items in batches of four
	s.want(a, 200, `"fail":{"count":1`)
	s.want(a, 200, `"success":{"count":6`)
	for _, part := range []string{"compute_input", "compute_infer", "compute_output", "queue"} {
		s.want(a, 200, `"`+part+`":{"count":6`) // requests, as Triton counts them
	}
	m := s.do("GET", "/metrics", "")
	s.want(m, 200, `symphony_http_requests_total{code="200",route="infer"} 6`)
	s.want(m, 200, `symphony_http_requests_total{code="429",route="infer"} 1`)
	s.want(m, 200, `symphony_http_request_duration_seconds_count{route="infer"} 7`)
}

// A request of several items counts once, with the times of the item that took longest: the sum of its parts is
// what it took, and clients divide by requests.
func TestStatisticsOfABatch(t *testing.T) {
	m := newStatistics(nil).of(&catalog.ModelSpec{Name: "m", Version: "1"})
	times := func(unit time.Duration) *frontend.Response {
		return &frontend.Response{BatchSize: 2, Queue: unit, Fetch: 2 * unit, Execute: 3 * unit, Reply: 4 * unit, Total: 10 * unit}
	}
	m.record([]*frontend.Response{times(1), times(3), times(2)})
	m.record([]*frontend.Response{times(5)})
	for name, c := range map[string]struct {
		got  span
		want time.Duration
	}{"success": {m.success, 80}, "queue": {m.queue, 8}, "fetch": {m.fetch, 16}, "execute": {m.execute, 24}, "reply": {m.reply, 32}} {
		if c.got.count != 2 || c.got.total != c.want {
			t.Errorf("%s: %v, want %v of 2", name, c.got, c.want)
		}
	}
	if m.items != 4 || m.executions != 2 {
		t.Errorf("%d items in %v batches", m.items, m.executions)
	}
}
