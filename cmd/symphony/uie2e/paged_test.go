package uie2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A pool with room for 20 of its 100 models on each of two GPUs: the page has loaders' lanes and the table of memories, has a
// file's events as the file does, and tells of a cold request which load it waited for; so do top and explain.
func TestPagedPage(t *testing.T) {
	path, dir := chromium(t), shots(t)
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	c := startClusterOf(t, `{device_type: v100, kind: emulated, devices: 2, paged: {pages: 140}, zoo: [{csv: `+filepath.Join(root, "bench/zoo/zoo_v100_clockwork.csv")+`, models: [resnet50_v2], copies: 100, slo: 100ms}]}`)
	c.load(t, 150, "--models", "resnet50*", "--popularity", "zipf:0.9")
	b := startBrowser(t, path)
	b.open(t, c.admin+"/ui/", 1280, 800, false)
	b.await(t, "symphony.store.pools.size && symphony.store.pools.get(0).rows.every((r) => r.memory.length > 3 && r.loads.some((l) => l.done)) && !document.getElementById('memoryTab').hidden", callMost)
	b.eval(t, "document.getElementById('memoryTab').click()", nil)
	b.await(t, "document.querySelectorAll('#memory tbody')[0].rows.length === 2 && document.querySelectorAll('#memory tbody')[1].rows.length === 100", callMost)
	for _, p := range []struct {
		name          string
		width, height int
		dark          bool
	}{{"paged", 1280, 800, false}, {"paged-dark", 1280, 800, true}, {"paged-phone", 400, 860, false}} {
		b.look(t, p.width, p.height, p.dark)
		time.Sleep(time.Second) // it draws anew
		b.shoot(t, filepath.Join(dir, p.name+".png"))
	}
	b.look(t, 1280, 800, false)

	// The last request but some that left in a batch whose load was under way when it came.
	const waited = `(() => {
		const row = symphony.store.pools.get(0).rows[0];
		for (const l of row.loads.filter((l) => l.done && l.why === "cold").slice(-40, -20)) {
			const batch = row.batches.find((b) => b.model === l.model && b.sent > l.sent && b.end !== undefined);
			if (batch && batch.requests[1] < l.to) return batch.requests[0];
		}
		return "";
	})()`
	b.await(t, waited+` !== ""`, callMost)
	var id, headline string
	b.eval(t, waited, &id)
	b.eval(t, "symphony.explain('"+id+"').then(() => document.querySelector('#story').innerText)", &headline)
	told := c.symphony(t, "explain", id, "--admin", c.host)
	for _, want := range []string{"no GPU has its model's weights", "makes room", "is ordered (7 pages)", "copied in"} {
		if !strings.Contains(told, want) || !strings.Contains(headline, want) {
			t.Errorf("the page says %q, symphony explain says\n%s\nwant %q in both", headline, told, want)
		}
	}
	time.Sleep(500 * time.Millisecond)
	b.shoot(t, filepath.Join(dir, "paged-story.png"))
	top := c.symphony(t, "top", "--once", "4s", "--admin", c.host)
	t.Logf("\n%s\n%s", told, top)
	if !strings.Contains(top, "LOADER") || !strings.Contains(top, "HELD") || !strings.Contains(top, "GPU 1") || !strings.Contains(top, "deferral 0 %") {
		t.Errorf("symphony top says\n%s", top)
	}
	file := filepath.Join(t.TempDir(), "saved.jsonl")
	var doc string
	b.eval(t, "symphony.store.document()", &doc)
	if err := os.WriteFile(file, []byte(doc), 0o644); err != nil {
		t.Fatal(err)
	}
	b.open(t, c.open(t, file), 1280, 800, true)
	b.await(t, "symphony.store.still && symphony.store.batches.size > 100", callMost)
	sameEvents(t, b, file)
	b.clean(t)
}
