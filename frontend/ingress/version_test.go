package ingress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// twoVersions is an ingress whose model "two" is chosen as version "1" and "0" by turns.
func twoVersions(t *testing.T) *server {
	s := start(t, Config{})
	s.fake.choose = func(n int64) string { return fmt.Sprint(n % 2) }
	return s
}

// A request of "two": JSON, binary, and a client-side batch.
func requestsOfTwo() map[string][2]string {
	json := `{"inputs":[{"name":"a","shape":[1,2],"datatype":"INT32","data":[1,2]},{"name":"b","shape":[1,1],"datatype":"UINT8","data":[3]}]}`
	head := `{"inputs":[{"name":"a","shape":[1,2],"datatype":"INT32","parameters":{"binary_data_size":8}},{"name":"b","shape":[1,1],"datatype":"UINT8","parameters":{"binary_data_size":1}}]}`
	body, length := binaryBody(head, "12345678", "9")
	batch := `{"inputs":[{"name":"a","shape":[3,2],"datatype":"INT32","data":[1,2,1,2,1,2]},{"name":"b","shape":[3,1],"datatype":"UINT8","data":[3,3,3]}]}`
	return map[string][2]string{"JSON": {json, ""}, "binary": {body, length}, "batch": {batch, ""}}
}

// A request takes one turn, whatever it looks like, and its reply names the version that
// answered.
func TestOneTurnForEachRequest(t *testing.T) {
	s := twoVersions(t)
	for name, r := range requestsOfTwo() {
		for range 4 {
			var headers []string
			if r[1] != "" {
				headers = []string{headerLength, r[1]}
			}
			before := s.fake.chosen.Load()
			a := s.do("POST", "/v2/models/two/infer", r[0], headers...)
			n := s.fake.chosen.Load()
			if s.want(a, 200, fmt.Sprintf(`"model_version":"%d"`, n%2)); n != before+1 {
				t.Errorf("%s: %d turns", name, n-before)
			}
			s.want(s.do("POST", "/v2/models/two/versions/0/infer", r[0], headers...), 200, `"model_version":"0"`)
		}
	}
	n := s.fake.chosen.Load()
	for _, path := range []string{"", "/ready", "/config", "/stats", "/versions/1"} {
		s.want(s.do("GET", "/v2/models/two"+path, ""), 200, "")
	}
	if taken := s.fake.chosen.Load() - n; taken != 0 {
		t.Errorf("%d turns for looking at it", taken)
	}
}

// goes takes version 1 of "two" away in the middle of a request, and returns the answer.
func goes(t *testing.T, s *server, path, body, length string) string {
	t.Helper()
	c, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", path, len(body))
	if length != "" {
		head += "Inference-Header-Content-Length: " + length + "\r\n"
	}
	before := s.fake.chosen.Load()
	const cut = prefetched + 100 // from where on the handler does not wait
	if _, err := io.WriteString(c, head+"\r\n"+body[:cut]); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); s.fake.chosen.Load() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the request was not begun")
		}
	}
	s.fake.mu.Lock()
	s.fake.gone = map[string]bool{"two/1": true}
	s.fake.mu.Unlock()
	if _, err := io.WriteString(c, body[cut:]); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(b))
}

// A version that goes while a request's body comes is followed by another one, unless the
// request named it.
func TestVersionGoesWhileTheBodyComes(t *testing.T) {
	large := strings.Repeat(" ", prefetched+200) // a small body is there when the handler begins
	for name, r := range requestsOfTwo() {
		s := start(t, Config{})
		s.fake.choose = func(int64) string {
			if s.fake.gone["two/1"] {
				return "0"
			}
			return "1"
		}
		body := r[0]
		if r[1] == "" {
			body += large
		} else {
			body = large + body
			r[1] = fmt.Sprint(len(body) - 9)
		}
		if a := goes(t, s, "/v2/models/two/infer", body, r[1]); !strings.Contains(a, "200 ") || !strings.Contains(a, `"model_version":"0"`) {
			t.Errorf("%s: %s", name, a)
		}
	}
	s := start(t, Config{})
	if a := goes(t, s, "/v2/models/two/versions/1/infer", requestsOfTwo()["JSON"][0]+large, ""); !strings.Contains(a, "404 ") {
		t.Errorf("version 1 was asked for: %s", a)
	}
}

// Counts of versions that are gone are forgotten when there are many.
func TestStatisticsForget(t *testing.T) {
	f := newFake()
	s := newStatistics(f)
	two := f.entries[len(f.entries)-1].Spec
	kept := s.of(&two)
	for i := range 10 * statisticsMin {
		other := two
		other.Version = fmt.Sprint(1000 + i)
		s.of(&other)
	}
	if s.n > 2*statisticsMin || s.of(&two) != kept {
		t.Errorf("%d versions are kept, version %s anew", s.n, two.Version)
	}
}
