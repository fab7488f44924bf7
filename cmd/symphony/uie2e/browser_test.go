package uie2e

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// browser is a headless Chromium with one page.
type browser struct {
	cmd     *exec.Cmd
	in      *os.File
	session string

	mu       sync.Mutex // Guards what follows.
	next     int
	waiting  map[int]chan reply
	troubles []string // errors of the page's console
	over     error
}

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// callMost is how long an answer of the browser may take on a loaded machine.
const callMost = 60 * time.Second

// startBrowser opens an empty page.
func startBrowser(t *testing.T, path string) *browser {
	t.Helper()
	toIt, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, fromIt, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{in: in, waiting: map[int]chan reply{}}
	b.cmd = exec.Command(path, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--mute-audio",
		"--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
		"--user-data-dir="+t.TempDir(), "about:blank")
	b.cmd.ExtraFiles = []*os.File{toIt, fromIt} // its descriptors 3 and 4
	var said bytes.Buffer
	b.cmd.Stderr = &said
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = toIt.Close()
	_ = fromIt.Close()
	go b.read(out)
	t.Cleanup(func() {
		_ = in.Close()
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait()
		if t.Failed() {
			t.Logf("the browser said:\n%.4000s", said.String())
		}
	})
	var target struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	b.must(t, "Target.getTargets", nil, &target)
	for _, i := range target.TargetInfos {
		if i.Type == "page" {
			var s struct{ SessionID string }
			b.must(t, "Target.attachToTarget", map[string]any{"targetId": i.TargetID, "flatten": true}, &s)
			b.session = s.SessionID
		}
	}
	if b.session == "" {
		t.Fatal("the browser has no page")
	}
	for _, domain := range []string{"Page", "Runtime", "Log", "Performance", "Network"} {
		b.must(t, domain+".enable", nil, nil)
	}
	return b
}

// read takes answers and events until the pipe ends.
func (b *browser) read(out *os.File) {
	defer out.Close()
	r := bufio.NewReaderSize(out, 1<<20)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			b.mu.Lock()
			b.over = fmt.Errorf("the browser ended: %w", err)
			for id, w := range b.waiting {
				delete(b.waiting, id)
				close(w)
			}
			b.mu.Unlock()
			return
		}
		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			reply
		}
		if json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &m) != nil {
			continue
		}
		b.mu.Lock()
		if w := b.waiting[m.ID]; m.ID != 0 && w != nil {
			delete(b.waiting, m.ID)
			w <- m.reply
		} else if trouble := troubleOf(m.Method, m.Params); trouble != "" {
			b.troubles = append(b.troubles, trouble)
		}
		b.mu.Unlock()
	}
}

// troubleOf is what an event says of an error of the page, else "".
func troubleOf(method string, params json.RawMessage) string {
	var p struct {
		Type             string
		Entry            struct{ Level, Text, URL string }
		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
		Args    []struct{ Value, Description any }
		Request struct{ URL string }
	}
	_ = json.Unmarshal(params, &p)
	switch {
	case method == "Runtime.exceptionThrown":
		return p.ExceptionDetails.Text + " " + p.ExceptionDetails.Exception.Description
	case method == "Runtime.consoleAPICalled" && (p.Type == "error" || p.Type == "warning"):
		return fmt.Sprint(p.Args)
	case method == "Log.entryAdded" && p.Entry.Level == "error":
		return p.Entry.Text + " " + p.Entry.URL
	case method == "Network.requestWillBeSent":
		return foreign(p.Request.URL)
	}
	return ""
}

func (b *browser) call(method string, params any, result any) error {
	w := make(chan reply, 1)
	b.mu.Lock()
	if b.over != nil {
		b.mu.Unlock()
		return b.over
	}
	b.next++
	id := b.next
	b.waiting[id] = w
	b.mu.Unlock()
	m := map[string]any{"id": id, "method": method}
	if params != nil {
		m["params"] = params
	}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	text, err := json.Marshal(m)
	if err == nil {
		_, err = b.in.Write(append(text, 0))
	}
	if err != nil {
		return err
	}
	select {
	case r, ok := <-w:
		switch {
		case !ok:
			return errors.New("the browser ended")
		case r.Error != nil:
			return fmt.Errorf("%s: %s", method, r.Error.Message)
		case result == nil:
			return nil
		}
		return json.Unmarshal(r.Result, result)
	case <-time.After(callMost):
		return fmt.Errorf("%s: no answer within %v", method, callMost)
	}
}

func (b *browser) must(t *testing.T, method string, params any, result any) {
	t.Helper()
	if err := b.call(method, params, result); err != nil {
		t.Fatal(err)
	}
}

// eval is the value of an expression in the page, which may be a promise.
func (b *browser) eval(t *testing.T, expression string, value any) {
	t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	b.must(t, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r)
	if r.ExceptionDetails != nil {
		t.Fatalf("%s: %s %s", expression, r.ExceptionDetails.Text, r.ExceptionDetails.Exception.Description)
	}
	if value != nil {
		if err := json.Unmarshal(r.Result.Value, value); err != nil {
			t.Fatalf("%s: %v in %s", expression, err, r.Result.Value)
		}
	}
}

// await waits until an expression is true.
func (b *browser) await(t *testing.T, expression string, most time.Duration) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		var ok bool
		if b.eval(t, "!!("+expression+")", &ok); ok {
			return
		}
		if time.Since(begin) > most {
			t.Fatalf("%s is not true within %v", expression, most)
		}
	}
}

// open goes to a page, in a window of that size, dark or light.
func (b *browser) open(t *testing.T, url string, width, height int, dark bool) {
	t.Helper()
	b.look(t, width, height, dark)
	b.must(t, "Page.navigate", map[string]any{"url": url}, nil)
	b.await(t, "window.symphony && document.readyState === 'complete'", callMost)
}

func (b *browser) look(t *testing.T, width, height int, dark bool) {
	t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.must(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.must(t, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// shoot takes a picture of the window.
func (b *browser) shoot(t *testing.T, path string) {
	t.Helper()
	var r struct{ Data string }
	b.must(t, "Page.captureScreenshot", map[string]any{"format": "png"}, &r)
	picture, err := base64.StdEncoding.DecodeString(r.Data)
	if err == nil {
		err = os.WriteFile(path, picture, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d bytes", path, len(picture))
}

// key presses a key.
func (b *browser) key(t *testing.T, key string) {
	t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		m := map[string]any{"type": kind, "key": key}
		if kind == "keyDown" && len(key) == 1 {
			m["text"] = key
		}
		b.must(t, "Input.dispatchKeyEvent", m, nil)
	}
}

// memory is what the page has after a collection.
type memory struct {
	heap      float64 // bytes of JavaScript's
	nodes     float64 // of the document, and those that scripts hold
	listeners float64 // of events
}

func (b *browser) memory(t *testing.T) (m memory) {
	t.Helper()
	b.must(t, "HeapProfiler.collectGarbage", nil, nil)
	var r struct {
		Metrics []struct {
			Name  string
			Value float64
		}
	}
	b.must(t, "Performance.getMetrics", nil, &r)
	for _, of := range r.Metrics {
		switch of.Name {
		case "JSHeapUsedSize":
			m.heap = of.Value
		case "Nodes":
			m.nodes = of.Value
		case "JSEventListeners":
			m.listeners = of.Value
		}
	}
	if m.heap == 0 || m.nodes == 0 || m.listeners == 0 {
		t.Fatalf("the browser does not say how much memory the page has: %+v", m)
	}
	return m
}

// clean fails with what the page's console had to say.
func (b *browser) clean(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.troubles {
		t.Errorf("the page's console: %s", s)
	}
}
