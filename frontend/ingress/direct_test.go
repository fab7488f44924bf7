package ingress

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/ingress/oip"
)

// A header that x has read last stands; any other, and one that is no header, is read
// anew, and the views are never those of a buffer that has changed since.
func TestParseAhead(t *testing.T) {
	header := func(name string) []byte {
		return []byte(`{"id":"` + name + `","inputs":[{"name":"` + name + `","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}}]}`)
	}
	var x exchange
	buffer := header("a")
	for _, step := range []struct {
		header []byte
		ok     bool
	}{{header("a"), true}, {header("a"), true}, {header("b"), true}, {[]byte(`{"inputs":`), false}, {header("b"), true}, {header("a"), true}} {
		buffer = append(buffer[:0], step.header...)
		if ok := x.parseAhead(buffer); ok != step.ok {
			t.Fatalf("%s: %v", step.header, ok)
		}
		clear(buffer) // as the next body does
		if !step.ok {
			continue
		}
		var want oip.Request
		if err := want.ParseHeader(step.header); err != nil {
			t.Fatal(err)
		}
		if got := &x.request; string(got.ID) != string(want.ID) || len(got.Inputs) != 1 || string(got.Inputs[0].Name) != string(want.Inputs[0].Name) || got.Inputs[0].BinarySize() != 4 {
			t.Errorf("%s: read as %+v", step.header, got)
		}
	}
}

// The same header is not parsed again.
func TestParseAheadRemembers(t *testing.T) {
	header := []byte(`{"inputs":[{"name":"a","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}}]}`)
	var x exchange
	x.parseAhead(header)
	if n := testing.AllocsPerRun(10, func() { x.request.Inputs[0].Shape[0]++; x.parseAhead(header) }); n != 0 || x.request.Inputs[0].Shape[0] == 1 {
		t.Errorf("%v allocations, shape %v", n, x.request.Inputs[0].Shape)
	}
	long := []byte(`{"id":"` + strings.Repeat("x", parsedMax) + `",` + string(header[1:]))
	if !x.parseAhead(long) || len(x.parsed) != 0 || len(x.request.Inputs) != 1 {
		t.Errorf("a long header: %d bytes remembered, %d inputs", len(x.parsed), len(x.request.Inputs))
	}
}

// A header that was read ahead, then one of a body that was read as a whole, and the
// first again: each is served as it says.
func TestWholeBodyBetweenDirectOnes(t *testing.T) {
	s := start(t, Config{})
	head := `{"id":"a","parameters":{"timeout":1000},"inputs":[{"name":"x","shape":[4],"datatype":"FP32","parameters":{"binary_data_size":16}}]}`
	ahead, n := binaryBody(head, strings.Repeat("\x01", 16))
	whole, k := binaryBody(strings.NewReplacer(`"a"`, `"b"`, "1000", "9000").Replace(head), strings.Repeat("\x01", 16))
	for range 20 { // exchanges are pooled
		s.want(s.do("POST", "/v2/models/flat/infer", ahead, headerLength, n), 200, `"id":"a"`)
		s.want(s.do("POST", "/v2/models/flat/infer", whole, headerLength, k, "Content-Encoding", "identity"), 200, `"id":"b"`)
		s.want(s.do("POST", "/v2/models/flat/infer", ahead, headerLength, n), 200, `"id":"a"`)
		if got := s.fake.last.Timeout; got != time.Millisecond {
			t.Fatalf("timeout %v, the header says 1 ms", got)
		}
	}
}

// What an exchange keeps for the next request makes no difference: requests of all kinds,
// in an order by chance, are answered as by a server that keeps nothing.
func TestKeepingMakesNoDifference(t *testing.T) {
	keeps, keepsNot := start(t, Config{}), start(t, Config{})
	rng := rand.New(rand.NewPCG(1, 2))
	tensor := strings.Repeat("\x01\x02\x03\x04", 4)
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	for n := range 1500 {
		head := "{" + pick("", "", `"id":"a",`, `"id":"`+strings.Repeat("x", 1200)+`",`) +
			pick("", "", `"parameters":{"timeout":1000},`, `"parameters":{"timeout":9000,"binary_data_output":true},`, `"parameters":{"timeout":99999999999},`) +
			`"inputs":[{"name":"` + pick("x", "x", "x", "z") + `","shape":[4],"datatype":"FP32","parameters":{"binary_data_size":16}}]` +
			pick("", "", `,"outputs":[{"name":"y","parameters":{"binary_data":true}}]`, `,"outputs":[{"name":"no"}]`) + "}"
		path := "/v2/models/" + pick("flat", "flat", "flat/versions/1", "fl%61t", "wide", "nope") + "/infer"
		body, length := binaryBody(head, tensor)
		headers := []string{headerLength, length}
		switch rng.IntN(10) {
		case 0:
			body, headers = `{"parameters":{"timeout":777},"inputs":[{"name":"x","shape":[4],"datatype":"FP32","data":[1,2,3,4]}]}`, nil
		case 1:
			body, headers = tensor, []string{headerLength, "0"}
		case 2:
			headers = []string{headerLength, "20"}
		case 3:
			headers = append(headers, "Content-Encoding", "identity")
		}
		panics := rng.IntN(20) == 0
		ask := func(s *server) (answer, frontend.Request) {
			s.fake.failWith(nil)
			if panics {
				s.fake.failWith(func(frontend.Request) error { panic("on purpose") })
			}
			s.fake.mu.Lock()
			s.fake.last = frontend.Request{}
			s.fake.mu.Unlock()
			a := s.do("POST", path, body, headers...)
			s.fake.mu.Lock()
			defer s.fake.mu.Unlock()
			return a, s.fake.last
		}
		a, asked := ask(keeps)
		keepsNot.pools.exchanges = sync.Pool{}
		b, askedNot := ask(keepsNot)
		if a.status != b.status || string(a.body) != string(b.body) || !reflect.DeepEqual(asked, askedNot) {
			t.Fatalf("request %d, %s %v: %d %s, and %d %s without keeping; asked %+v and %+v", n, path, headers, a.status, a.body, b.status, b.body, asked, askedNot)
		}
	}
}
