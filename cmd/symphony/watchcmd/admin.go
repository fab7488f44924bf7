package watchcmd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/scheduler/watch/ui"
)

// Admin is the flag that says which scheduler is asked.
type Admin struct {
	Admin string `help:"Where the scheduler's admin address is (admin)." default:"127.0.0.1:8003" placeholder:"HOST:PORT"`
}

// url is an address of the API.
func (a Admin) url(path string) (string, error) {
	base := a.Admin
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("--admin: %q is no address: write HOST:PORT", a.Admin)
	}
	return "http" + strings.TrimPrefix(u.Scheme, "http") + "://" + u.Host + "/ui/" + path, nil
}

// get asks, and returns an answer of status 200.
func (a Admin) get(ctx context.Context, path string) (*http.Response, error) {
	where, err := a.url(path)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("nobody listens at %s: is a scheduler running with --admin %s? (symphony serve has 127.0.0.1:8003; --admin says where else)", a.Admin, a.Admin)
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusOK:
		return resp, nil
	}
	defer resp.Body.Close()
	var doc struct {
		Error string `json:"error"`
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if json.Unmarshal(text, &doc) != nil || doc.Error == "" {
		return nil, fmt.Errorf("%s answers with status %d: is it a scheduler's admin address?", where, resp.StatusCode)
	}
	return nil, errors.New(doc.Error)
}

// follow hands the lines of the scheduler's stream to each, until the stream or ctx ends. An event that ends
// a chunk is followed by chunk.
func (a Admin) follow(ctx context.Context, head func(watch.Head), each func(*watch.Event), chunk func() error) error {
	resp, err := a.get(ctx, "events")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 1<<16), watch.LineMax)
	var events watch.Reader
	for first := true; lines.Scan(); {
		text, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok && lines.Text() == "":
			err = chunk()
		case !ok:
		case first:
			var h watch.Head
			if h, err = watch.ParseHead([]byte(text)); err == nil {
				head(h)
			}
			first = false
		default:
			err = events.Line([]byte(text), each)
		}
		if err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(lines.Err(), errBroken)
}

// errBroken is the end of a stream that nobody asked for.
var errBroken = errors.New("the scheduler ended the stream")

// openFile reads a saved schedule.
func openFile(path string) (*ui.Hub, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h, err := ui.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}
