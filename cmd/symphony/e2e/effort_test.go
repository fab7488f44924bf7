package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestBestEffort: over HTTP, closed-loop clients of best effort beside requests with deadlines, on two GPUs: each gets its
// output, in batches of more than one; and a class that there is not is refused.
func TestBestEffort(t *testing.T) {
	beside(t)
	s := serveEmulated(t, 2, emulated{"batch", 1, 4, "60ms"}, emulated{"online", 1, 4, "2s"})
	ask := func(model, class string) (int, string) {
		body := fmt.Sprintf(`{"parameters":{"class":%q},"inputs":[{"name":"input","shape":[1,8],"datatype":"FP32","data":[1,2,3,4,5,6,7,8]}]}`, class)
		r, err := http.Post("http://"+s.http+"/v2/models/"+model+"/infer", "application/json", bytes.NewReader([]byte(body)))
		if err != nil {
			return 0, err.Error()
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		return r.StatusCode, string(text)
	}
	var clients sync.WaitGroup
	var mu sync.Mutex
	joined := 0
	one := func(model, class string, n int, pause time.Duration) {
		for range n {
			status, text := ask(model, class)
			if status != http.StatusOK {
				t.Errorf("%s, %s: %d %s", model, class, status, text)
				return
			}
			if class == "best_effort" && !strings.Contains(text, `"batch_size":1,`) {
				mu.Lock()
				joined++
				mu.Unlock()
			}
			time.Sleep(pause)
		}
	}
	for range 16 {
		clients.Go(func() { one("batch", "best_effort", 40, 0) })
	}
	for range 4 {
		clients.Go(func() { one("online", "latency", 20, 20*time.Millisecond) })
	}
	clients.Wait()
	if joined == 0 {
		t.Error("no two requests of best effort ran together")
	}
	if status, text := ask("batch", "batch"); status != http.StatusBadRequest || !strings.Contains(text, "parameters.class") {
		t.Errorf("class batch: %d %s", status, text)
	}
}
