package ingress

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport/wire"
)

// Client-side batches have up to four times as many items as the largest max_batch: in JSON, as bytes, and
// from shared memory. Each item comes back, in order.
func TestBatchesOfManyItems(t *testing.T) {
	s := start(t, Config{SharedMemory: true})
	region := manyInSharedMemory(t, s)
	for _, n := range []int{256, 257, 300, wire.BatchMax, wire.BatchMax + 1, 4 * wire.BatchMax} {
		var list strings.Builder
		raw := make([]byte, 0, 6*n)
		for i := range 6 * n {
			list.WriteString("," + strconv.Itoa(i*7%251))
			raw = append(raw, byte(i*7%251))
		}
		const path = "/v2/models/echo-UINT8/infer"
		a := s.do("POST", path, fmt.Sprintf(`{"inputs":[{"name":"x","shape":[%d,2,3],"datatype":"UINT8","data":[%s]}]}`, n, list.String()[1:]))
		if a.status != 200 || !strings.Contains(string(a.body), `"data":[`+list.String()[1:]+`]`) {
			t.Errorf("%d items in JSON: %d %.200s", n, a.status, a.body)
		}
		body, length := binaryBody(fmt.Sprintf(`{"id":"7","parameters":{"binary_data_output":true},"inputs":[{"name":"x","shape":[%d,2,3],"datatype":"UINT8","parameters":{"binary_data_size":%d}}]}`, n, len(raw)), string(raw))
		checkBinaryReply(t, s.do("POST", path, body, headerLength, length), "UINT8", fmt.Sprintf("[%d,2,3]", n), string(raw))
		if region != nil {
			region(n, raw)
		}
	}
	refused := s.do("POST", "/v2/models/echo-UINT8/infer", fmt.Sprintf(`{"inputs":[{"name":"x","shape":[%d,2,3],"datatype":"UINT8","data":[]}]}`, 4*wire.BatchMax+1))
	s.want(refused, 400, "a batch of 4097 items, must be 1 to 4096: send more requests of fewer items")
	if n, bytes := s.items.Load(), s.bodies.Load(); n != 0 || bytes != 0 {
		t.Errorf("%d items and %d bytes are counted after the last answer", n, bytes)
	}
}

// manyInSharedMemory asks for items that a region has, and compares what is written there; nil where a host
// has no shared memory.
func manyInSharedMemory(t *testing.T, s *server) func(n int, raw []byte) {
	f, err := os.CreateTemp("/dev/shm", "symphony-test-*")
	if err != nil {
		t.Logf("there is no shared memory here: %v", err)
		return nil
	}
	t.Cleanup(func() { f.Close(); os.Remove(f.Name()) })
	const half = 6 * itemsMost
	if err := f.Truncate(2 * half); err != nil {
		t.Fatal(err)
	}
	s.want(s.do("POST", "/v2/systemsharedmemory/region/r/register", fmt.Sprintf(`{"key":"/%s","offset":0,"byte_size":%d}`, filepath.Base(f.Name()), 2*half)), 200, "")
	return func(n int, raw []byte) {
		if _, err := f.WriteAt(raw, 0); err != nil {
			t.Fatal(err)
		}
		at := func(offset int) string {
			return fmt.Sprintf(`"parameters":{"shared_memory_region":"r","shared_memory_offset":%d,"shared_memory_byte_size":%d}`, offset, len(raw))
		}
		s.want(s.do("POST", "/v2/models/echo-UINT8/infer", fmt.Sprintf(`{"inputs":[{"name":"x","shape":[%d,2,3],"datatype":"UINT8",%s}],"outputs":[{"name":"y",%s}]}`, n, at(0), at(half))), 200, "")
		out := make([]byte, len(raw))
		if _, err := f.ReadAt(out, half); err != nil || string(out) != string(raw) {
			t.Errorf("%d items from a region came back as others: %v", n, err)
		}
	}
}

// A frontend that may have few requests open takes no larger batch, and says by which setting; of several
// the ones beyond are refused before memory is taken for them, and counted off when they are answered.
func TestItemsAtATime(t *testing.T) {
	s := start(t, Config{ItemsOpen: 300})
	batch := func(n int) answer {
		return s.do("POST", "/v2/models/echo-UINT8/infer", fmt.Sprintf(`{"inputs":[{"name":"x","shape":[%d,2,3],"datatype":"UINT8","data":[%s]}]}`, n, strings.TrimSuffix(strings.Repeat("1,", 6*n), ",")))
	}
	s.want(batch(301), 400, "a batch of 301 items, must be 1 to 300: send more requests of fewer items, or raise frontend.max_in_flight")
	s.want(batch(300), 200, "")
	hold := make(chan struct{})
	s.fake.mu.Lock()
	s.fake.hold = hold
	s.fake.mu.Unlock()
	first := make(chan answer)
	go func() { first <- batch(200) }()
	for begin := time.Now(); s.items.Load() != 200; time.Sleep(time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("the first batch was not asked for")
		}
	}
	s.want(batch(101), 429, "too many items of client-side batches at a time: at most 300 (frontend.max_in_flight)")
	close(hold)
	s.want(<-first, 200, "")
	s.want(batch(101), 200, "")
}
