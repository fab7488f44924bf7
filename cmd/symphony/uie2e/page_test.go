package uie2e

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/watch"
)

// required is set by make test-ui, which builds the binary that bin names.
func chromium(t *testing.T) string {
	t.Helper()
	if os.Getenv("SYMPHONY_REQUIRE_CHROMIUM") != "1" {
		t.Skip("a browser is tested by make test-ui")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("there is no Chromium: apt-get install chromium")
	return ""
}

// foreign is a request of the page to another host than ours.
func foreign(address string) string {
	u, err := url.Parse(address)
	if err == nil && (u.Hostname() == "127.0.0.1" || u.Scheme == "data" || u.Scheme == "about" || u.Scheme == "blob") {
		return ""
	}
	return "it asks another host: " + address
}

// spanOf is how long the page is watched: UI_SPAN, or a minute.
func spanOf(t *testing.T) time.Duration {
	t.Helper()
	span, err := time.ParseDuration(cmp.Or(os.Getenv("UI_SPAN"), "60s"))
	if err != nil {
		t.Fatalf("UI_SPAN: %v", err)
	}
	return span
}

// shots is where pictures go: UI_SHOTS, or a folder that the test forgets.
func shots(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("UI_SHOTS"); dir != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	return t.TempDir()
}

const (
	framesLeast = 20.0 // a second
	heapMost    = 256e6
	gpus        = 64
	rate        = 2000
)

// The page before 64 emulated GPUs and 2,000 requests/s: it draws often enough, its memory is bounded, its
// console stays empty, it asks nobody else; keys work; the pictures are taken.
func TestPage(t *testing.T) {
	path, span, dir := chromium(t), spanOf(t), shots(t)
	c := startCluster(t, gpus)
	c.load(t, rate)
	b := startBrowser(t, path)
	b.open(t, c.admin+"/ui/", 1280, 800, false)
	b.await(t, "symphony.store.batches.size > 100 && [...symphony.store.models.values()].some((m) => m.counts.length > 4)", callMost)

	b.eval(t, "symphony.frames.n = 0, symphony.frames.longest = 0, symphony.frames.since = performance.now()", nil)
	time.Sleep(span)
	var frames, longest float64
	b.eval(t, "symphony.frames.n / (performance.now() - symphony.frames.since) * 1000", &frames)
	b.eval(t, "symphony.frames.longest", &longest)
	t.Logf("%.1f frames/s over %v, the longest pause %.0f ms", frames, span, longest)
	if frames < framesLeast {
		t.Errorf("%.1f frames/s, want at least %v", frames, framesLeast)
	}
	steady(t, b, span)
	var rows, models, missed int
	b.eval(t, "symphony.store.pools.get(0).rows.length", &rows)
	b.eval(t, "symphony.store.models.size", &models)
	b.eval(t, "symphony.store.missed", &missed)
	if rows != gpus || models == 0 || missed != 0 {
		t.Errorf("%d GPUs, %d models, %d events missed", rows, models, missed)
	}
	keys(t, b)
	calm(t, b)
	for _, p := range []struct {
		name          string
		width, height int
		dark          bool
	}{{"light", 1280, 800, false}, {"dark", 1280, 800, true}, {"light-phone", 400, 860, false}, {"dark-phone", 400, 860, true}} {
		b.look(t, p.width, p.height, p.dark)
		time.Sleep(time.Second) // it draws anew
		b.shoot(t, filepath.Join(dir, p.name+".png"))
	}
	b.clean(t)
}

// steady fails where the page takes more and more: once its minute is full it forgets as much as comes, so
// its memory, elements and listeners, after collections, stay what they are for another span. What comes is random,
// and so is a few per cent of it.
func steady(t *testing.T, b *browser, span time.Duration) {
	t.Helper()
	b.await(t, "symphony.store.to - symphony.store.from > 59e9 && performance.now() > 65e3", 3*time.Minute)
	const looks = 7
	var all [looks]memory
	for i := range all {
		if i > 0 {
			time.Sleep(span / (looks - 1))
		}
		all[i] = b.memory(t)
	}
	t.Logf("with a full minute, over %v more: heap %s MB, elements %s, listeners %s", span,
		each(all[:], func(m memory) string { return fmt.Sprintf("%.1f", m.heap/1e6) }), each(all[:], func(m memory) string { return fmt.Sprintf("%.0f", m.nodes) }),
		each(all[:], func(m memory) string { return fmt.Sprintf("%.0f", m.listeners) }))
	first, last := least(all[:3]), least(all[4:])
	if last.heap > 1.05*first.heap || last.heap > heapMost {
		t.Errorf("the page's memory grew from %.1f to %.1f MB, want at most 5 %% more and %.0f MB", first.heap/1e6, last.heap/1e6, heapMost/1e6)
	}
	if last.nodes > 1.1*first.nodes+20 || last.listeners > first.listeners+5 {
		t.Errorf("the page's elements grew from %.0f to %.0f, its listeners from %.0f to %.0f", first.nodes, last.nodes, first.listeners, last.listeners)
	}
}

// calm waits, for a while, until the page itself shows less than 1 % bad: pictures are of the system, and on a few
// processors that a browser, which draws in software, shares with the scheduler, the GPUs and the load, what is lost
// meanwhile is the machine's. Where no such moment comes the pictures are as they are, and the log says so.
func calm(t *testing.T, b *browser) {
	t.Helper()
	const most, span = 60 * time.Second, 5
	bad := 0.0
	for begin := time.Now(); time.Since(begin) < most; time.Sleep(500 * time.Millisecond) {
		b.eval(t, fmt.Sprintf(`(() => {
			let bad = 0, all = 0;
			const at = symphony.store.now() - 4e8;
			for (const m of symphony.store.models.values()) {
				for (let s = 0; s < %d; s++) { // the page's own rates are of two seconds each
					const r = symphony.store.rates(m, at - s * 1e9);
					bad += r.late + r.dropped;
					all += r.served + r.late + r.dropped;
				}
			}
			return all ? bad / all : 1;
		})()`, span), &bad)
		if bad < 0.01 {
			t.Logf("%.2f %% were bad in the last seconds before the pictures", 100*bad)
			return
		}
	}
	t.Logf("the machine had no calm moment within %v: the pictures have %.1f %% bad", most, 100*bad)
}

func each(all []memory, of func(memory) string) string {
	var out []string
	for _, m := range all {
		out = append(out, of(m))
	}
	return strings.Join(out, " ")
}

// least is the least of each number: what a collection may have left for the next one is not in it.
func least(all []memory) memory {
	m := all[0]
	for _, o := range all[1:] {
		m = memory{min(m.heap, o.heap), min(m.nodes, o.nodes), min(m.listeners, o.listeners)}
	}
	return m
}

// keys tries what the keyboard does.
func keys(t *testing.T, b *browser) {
	t.Helper()
	is := func(want bool, expression string) {
		t.Helper()
		var got bool
		if b.eval(t, "!!("+expression+")", &got); got != want {
			t.Errorf("%s is %v, want %v", expression, got, want)
		}
	}
	b.key(t, " ")
	is(true, "symphony.view.paused")
	b.eval(t, "window.before = symphony.view.at", nil)
	b.key(t, "ArrowLeft")
	is(true, "symphony.view.at < window.before")
	b.key(t, "End")
	is(false, "symphony.view.paused")
	b.eval(t, "window.before = symphony.view.span", nil)
	b.key(t, "+")
	is(true, "symphony.view.span === window.before - 1")
	b.key(t, "-")
	b.key(t, "t")
	is(true, "document.documentElement.classList.contains('dark')")
	b.key(t, "t")
	b.key(t, "?")
	is(true, "document.getElementById('helpBox').open")
	b.eval(t, "document.getElementById('helpBox').close()", nil)
	b.key(t, "/")
	is(true, "document.activeElement.id === 'request'")
	b.eval(t, "document.activeElement.blur()", nil)
}

// A request that is dropped under overload has its story in the page, by the API and by the command, and all
// name the same batch. What the page saves can be opened by the command and shows the same.
func TestStoryInThePage(t *testing.T) {
	path, dir := chromium(t), shots(t)
	c := startCluster(t, 8)
	c.load(t, 4000)
	b := startBrowser(t, path)
	b.open(t, c.admin+"/ui/", 1280, 800, false)
	b.await(t, "symphony.store.drops.length > 20 && performance.now() > 8000", callMost)
	var id string
	b.eval(t, "(() => { const d = symphony.store.drops.filter((d) => d.reason === 'deadline'); return (d.at(-1) || symphony.store.drops.at(-1)).request; })()", &id)
	time.Sleep(time.Second) // the batches around it are reported
	b.eval(t, "symphony.explain("+strconv.Quote(id)+")", nil)
	b.await(t, "!document.getElementById('story').hidden", callMost)
	var headline string
	b.eval(t, "document.querySelector('#story .headline').textContent", &headline)
	told := c.symphony(t, "explain", id, "--admin", c.host)
	if !strings.Contains(told, headline) || !strings.Contains(headline, "batch ") || !strings.Contains(headline, id) {
		t.Errorf("the page says %q, symphony explain says\n%s\nwant the same, with a batch", headline, told)
	}
	time.Sleep(500 * time.Millisecond)
	b.shoot(t, filepath.Join(dir, "story.png"))

	file := filepath.Join(t.TempDir(), "saved.jsonl")
	same := false
	for range 5 { // a batch of then may be reported between two questions
		var doc string
		b.eval(t, "symphony.store.document()", &doc)
		if err := os.WriteFile(file, []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
		told = c.symphony(t, "explain", id, "--admin", c.host)
		again := c.symphony(t, "explain", id, "--file", file)
		first, _, _ := strings.Cut(told, "\n")
		if same = strings.HasPrefix(again, first+"\n"); same {
			break
		}
		t.Logf("live\n%s\nof the saved file\n%s", told, again)
	}
	if !same {
		t.Error("the saved file never tells what the scheduler does")
	}
	if top := c.symphony(t, "top", "--once", "2s", "--admin", c.host); !strings.Contains(top, "8 GPUs") || slices.MaxFunc(strings.Split(top, "\n"), func(a, b string) int { return len([]rune(a)) - len([]rune(b)) }) == "" {
		t.Errorf("symphony top says\n%s", top)
	} else {
		t.Logf("\n%s", top)
	}
	at := c.open(t, file)
	b.open(t, at, 1280, 800, true)
	b.await(t, "symphony.store.still && symphony.store.batches.size > 100", callMost)
	b.eval(t, "symphony.explain("+strconv.Quote(id)+")", nil)
	b.await(t, "document.querySelector('#story .headline')", callMost)
	time.Sleep(500 * time.Millisecond)
	b.shoot(t, filepath.Join(dir, "file.png"))
	b.clean(t)
}

// sameEvents fails where the page, which gets a file's events packed, does not have them as the file does: to the bit, in
// the file's order.
func sameEvents(t *testing.T, b *browser, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var doc string
	b.eval(t, "symphony.store.document()", &doc)
	frequent := regexp.MustCompile(`(?m)^\{"e":"(?:batch|done|drop|queue|load|loaded|evict)".*$`)
	has, want := frequent.FindAllString(doc, -1), frequent.FindAllString(string(text), -1)
	if len(want) == 0 || len(has) != len(want) {
		t.Fatalf("the page has %d events, the file %d", len(has), len(want))
	}
	for i := range want {
		if has[i] != want[i] {
			t.Fatalf("event %d is in the page\n%s\nand in the file\n%s", i, has[i], want[i])
		}
	}
}

// Where there are several pools, rows say of which one they are.
func TestRowsOfSeveralPools(t *testing.T) {
	path := chromium(t)
	c := &cluster{binary: binary(t)}
	file := filepath.Join(t.TempDir(), "two.jsonl")
	doc := watch.NewHead("sim", "two pools", 0).Append(nil)
	for i, name := range []string{"a100", "v100"} {
		doc = (&watch.Event{Kind: watch.Pool, At: 1, Pool: int32(i), Info: &watch.Info{Name: name, GPUs: 1}}).Append(doc)
		doc = (&watch.Event{Kind: watch.GPU, At: 1, Pool: int32(i), Info: &watch.Info{}}).Append(doc)
	}
	doc = (&watch.Event{Kind: watch.Batch, At: 2e9, Batch: 1 << 16, Exec: 2e9, Until: 3e9, Size: 1}).Append(doc)
	if err := os.WriteFile(file, doc, 0o644); err != nil {
		t.Fatal(err)
	}
	b := startBrowser(t, path)
	b.open(t, c.open(t, file), 1280, 640, false)
	b.await(t, "symphony.store.still && symphony.gantt.boxes.length === 2", callMost)
	var labels string
	b.eval(t, "symphony.gantt.boxes.map((x) => symphony.gantt.label(x.pool, x.row.gpu)).join()", &labels)
	if labels != "a100 GPU 0,v100 GPU 0" {
		t.Errorf("rows are %q", labels)
	}
	b.clean(t)
}

// A simulation's file shows the staggered pattern: batches of one model begin at other times on each GPU.
func TestSimulation(t *testing.T) {
	path, dir := chromium(t), shots(t)
	c := &cluster{binary: binary(t)}
	file := filepath.Join(t.TempDir(), "sim.jsonl")
	c.symphony(t, "sim", "--models", "resnet50:1.053:5.072:25,bert:7:9:120", "--gpus", "12", "--rate", "3000", "--popularity", "zipf:3", "--policy", "symphony/defer",
		"--duration", "4s", "--warmup", "0s", "--quiet", "--events", file)
	b := startBrowser(t, path)
	b.open(t, c.open(t, file), 1280, 640, false)
	b.await(t, "symphony.store.still && symphony.store.batches.size > 100", callMost)
	sameEvents(t, b, file)
	b.eval(t, "symphony.view.span = 2, symphony.go(2.2e9)", nil)
	var starts int
	b.eval(t, "new Set([...symphony.store.batches.values()].filter((b) => b.exec > 2e9 && b.exec < 2.2e9).map((b) => Math.round(b.exec / 1e6))).size", &starts)
	if starts < 20 {
		t.Errorf("batches begin in %d of 200 milliseconds, want them spread", starts)
	}
	time.Sleep(500 * time.Millisecond)
	b.shoot(t, filepath.Join(dir, "staggered.png"))
	b.clean(t)
}
