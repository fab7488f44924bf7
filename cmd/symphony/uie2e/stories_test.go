package uie2e

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/watch/ui"
)

// Three constructed cases, simulated: the story of the dropped request names the batch that had the GPU it
// needed, and its cause, by command, by API and in the page alike.
func TestThreeStories(t *testing.T) {
	path := chromium(t)
	c := &cluster{binary: binary(t)}
	b := startBrowser(t, path)
	for _, k := range []struct{ name, models, trace, model, cause, needed, network, bound string }{
		{"overload", "pair:5:5:20", "0,pair\n0,pair\n0,pair\n0,pair\n0,pair\n0,pair\n2,pair\n", "pair", "overload", "pair", "constant:0s:0s", "0s:0s"},
		{"long batch", "long:10:90:300,tight:1:4:20", "0,long\n0.010,tight\n2,long\n", "tight", "long_batch", "long", "constant:0s:0s", "0s:0s"},
		{"late network", "one:0.01:5:40,two:0.01:5:17,three:0.01:5:17", "0,one\n0.001,two\n0.002,three\n2,one\n", "three", "late_inputs", "one", "constant:0s:12ms", "0s:1ms"},
	} {
		t.Run(k.name, func(t *testing.T) {
			dir := t.TempDir()
			trace, file := filepath.Join(dir, "trace.csv"), filepath.Join(dir, "events.jsonl")
			if err := os.WriteFile(trace, []byte("timestamp,model\n"+k.trace), 0o644); err != nil {
				t.Fatal(err)
			}
			c.symphony(t, "sim", "--models", k.models, "--gpus", "1", "--policy", "eager", "--trace", trace, "--trace-models", "column", "--duration", "1s", "--warmup", "0s",
				"--network", k.network, "--network-bound", k.bound, "--quiet", "--events", file)
			id := regexp.MustCompile(`(?m)^(\S+)\s+` + k.model + `\s+dropped: deadline`).FindStringSubmatch(c.symphony(t, "explain", "--file", file))
			if id == nil {
				t.Fatal("no request of the model was dropped")
			}
			told := c.symphony(t, "explain", id[1], "--file", file)
			t.Logf("\n%s", told)
			url := c.open(t, file)
			resp, err := http.Get(url + "story?request=" + id[1])
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			var s ui.Story
			if err != nil || json.Unmarshal(text, &s) != nil || s.Needed == nil {
				t.Fatalf("the API says %s, %v", text, err)
			}
			if s.Cause != k.cause || s.Needed.Model != k.needed || s.Model != k.model {
				t.Errorf("%s of %s for a batch of %s, want %s of %s for %s", s.Cause, s.Model, s.Needed.Model, k.cause, k.model, k.needed)
			}
			b.open(t, url, 1280, 640, false)
			b.await(t, "symphony.store.still", callMost)
			sameEvents(t, b, file) // with drops
			b.eval(t, "symphony.explain("+strconv.Quote(id[1])+")", nil)
			var headline string
			b.eval(t, "document.querySelector('#story .headline').textContent", &headline)
			if headline != s.Headline || !strings.Contains(told, headline) || !strings.Contains(headline, "batch "+s.Needed.Number+" (") {
				t.Errorf("page, command and API differ, or name no batch:\n%s\n%s\n%s", headline, told, s.Headline)
			}
		})
	}
	b.clean(t)
}
