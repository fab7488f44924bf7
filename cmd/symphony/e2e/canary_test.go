package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
	"testing"
	"time"
)

// TestCanary: a new version of a model gets 10 % of the requests, then all, then, rolled back,
// 10 % and none again, under load. Each request has one answer; which version gave it is what
// the frontend's counters say, and what of each span a version answered is its share.
func TestCanary(t *testing.T) {
	beside(t)
	p := startPlanned(t, []string{"--data", t.TempDir()}, 1, 2, emulated{"m", 0.5, 5, "5s"})
	l := p.callers(t, "m")
	time.Sleep(500 * time.Millisecond)
	p.ordered("model", "versions", "m", "--policy", "all")
	p.ordered("model", "share", "m", "1=1")
	p.ordered("model", "add", "m/2", "--source", p.source(emulated{"m", 1, 6, "5s"}, 2), "--wait", "--timeout", "60s")
	steps := []struct {
		order []string
		share float64 // of version 2
	}{
		{[]string{"model", "share", "m", "1=90", "2=10"}, 0.1},
		{[]string{"model", "share", "m", "2=1"}, 1},
		{[]string{"model", "rollback", "m"}, 0.1},
		{[]string{"model", "rollback", "m"}, 0},
	}
	if n := l.answersOf("2"); n != 0 {
		t.Errorf("version 2 answered %d requests before it had a share", n)
	}
	for _, s := range steps {
		p.ordered(s.order...)
		l.awaitShare(t, s.share)
		from := l.counts()
		time.Sleep(span(4*time.Second, 20*time.Second))
		to := l.counts()
		first, second := to["1"]-from["1"], to["2"]-from["2"]
		share := float64(second) / float64(max(1, first+second))
		t.Logf("%v: version 1 answered %d, version 2 %d: %.4f", s.order, first, second, share)
		if first+second < 200 || math.Abs(share-s.share) > 0.01 {
			t.Errorf("%v: of %d requests %.4f were answered by version 2, want %.2f", s.order, first+second, share, s.share)
		}
	}
	l.end(t)
	for version, n := range l.counts() {
		if counted := metric(t, p.http, "symphony_requests_total", `model="m"`, fmt.Sprintf("version=%q", version), `outcome="ok"`); counted != float64(n) {
			t.Errorf("version %s answered %d requests, and counts %g", version, n, counted)
		}
	}
}

// callers ask one model over HTTP, each with one request at a time, and count who answers.
type callers struct {
	url  string
	stop chan struct{}
	wait sync.WaitGroup

	mu       sync.Mutex
	versions map[string]int
	wrong    map[string]int // answers that are none
	asked    int
}

const (
	callersAtOnce = 8
	callersEvery  = 20 * time.Millisecond // of each
)

func (p *planned) callers(t *testing.T, model string) *callers {
	l := &callers{url: "http://" + p.http + "/v2/models/" + model + "/infer", stop: make(chan struct{}), versions: map[string]int{}, wrong: map[string]int{}}
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: callersAtOnce}}
	for range callersAtOnce {
		l.wait.Go(func() { l.run(client) })
	}
	t.Cleanup(func() {
		l.finish()
		client.CloseIdleConnections()
	})
	return l
}

func (l *callers) run(client *http.Client) {
	every := time.NewTicker(callersEvery)
	defer every.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-every.C:
		}
		version, wrong := l.ask(client)
		l.mu.Lock()
		l.asked++
		if wrong != "" {
			l.wrong[wrong]++
		} else {
			l.versions[version]++
		}
		l.mu.Unlock()
	}
}

// ask is one request; wrong is why its answer is none.
func (l *callers) ask(client *http.Client) (version, wrong string) {
	resp, err := client.Post(l.url, "application/json", bytes.NewReader([]byte(oneInput)))
	if err != nil {
		return "", err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	var reply struct {
		Version string            `json:"model_version"`
		Outputs []json.RawMessage `json:"outputs"`
	}
	if err == nil {
		err = json.Unmarshal(body, &reply)
	}
	if err != nil || resp.StatusCode != http.StatusOK || len(reply.Outputs) != 1 {
		return "", fmt.Sprintf("%d %.200s %v", resp.StatusCode, body, err)
	}
	return reply.Version, ""
}

func (l *callers) counts() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]int{}
	for v, n := range l.versions {
		out[v] = n
	}
	return out
}

func (l *callers) answersOf(version string) int { return l.counts()[version] }

// awaitShare waits until the share of version 2 is in force: in half a second's answers it
// is near it.
func (l *callers) awaitShare(t *testing.T, share float64) {
	t.Helper()
	eventually(t, 20*time.Second, fmt.Sprintf("a share of %.2f", share), func() error {
		from := l.counts()
		time.Sleep(500 * time.Millisecond)
		to := l.counts()
		first, second := to["1"]-from["1"], to["2"]-from["2"]
		if is := float64(second) / float64(max(1, first+second)); first+second < 20 || math.Abs(is-share) > 0.05 {
			return fmt.Errorf("of %d answers %d are version 2's", first+second, second)
		}
		return nil
	})
}

func (l *callers) finish() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.wait.Wait()
}

// end stops asking; it fails the test unless every request had a version's answer.
func (l *callers) end(t *testing.T) {
	t.Helper()
	l.finish()
	if len(l.wrong) != 0 || l.asked == 0 {
		t.Errorf("of %d requests some have no answer: %v", l.asked, l.wrong)
	}
}
