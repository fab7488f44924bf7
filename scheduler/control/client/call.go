package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/api"
)

// UnreachableError says that nobody answered as a control plane does.
type UnreachableError struct {
	URL     string
	Unknown bool // what was asked for may have been done
	Cause   error
}

func (e *UnreachableError) Error() string {
	unknown := ""
	if e.Unknown {
		unknown = "; whether it was done is not known: look before you repeat it"
	}
	return fmt.Sprintf("no control plane answers at %s (%v)%s. Start symphony serve or symphony controller, or say where it is (--control, SYMPHONY_CONTROL)", e.URL, e.Cause, unknown)
}

func (e *UnreachableError) Unwrap() error { return e.Cause }

// order is one call.
type order struct {
	method, path string
	body         any
	again        bool          // it may be done twice
	wait         time.Duration // that the control plane takes before it answers
}

// answerMax is the most bytes of an answer.
const answerMax = 256 << 20

// errGone: what was to be deleted is not there any more, most likely by a try of this call whose
// answer was lost.
var errGone = errors.New("it is gone")

// Waits between tries.
const (
	pauseMin = 50 * time.Millisecond
	pauseMax = 2 * time.Second
)

// do makes a call until it has an answer that stands, or patience ends. Where a try before may have
// done it, the answer to a DELETE that there is no such thing means that it did: errGone.
func (c *Client) do(ctx context.Context, o order, out any) error {
	var body []byte
	if o.body != nil {
		var err error
		if body, err = json.Marshal(o.body); err != nil {
			return fmt.Errorf("control plane: %w", err)
		}
	}
	maybe := false // a try before may have done it
	end := time.Now().Add(c.o.Patience)
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		err := c.try(ctx, &o, body, out)
		if maybe && o.method == "DELETE" && errors.Is(err, &api.Error{Kind: api.KindNotFound}) {
			return errGone
		}
		next, repeat := pause, false
		var unreachable *UnreachableError
		var told *api.Error
		switch {
		case errors.As(err, &unreachable):
			repeat, maybe = o.again || !unreachable.Unknown, maybe || unreachable.Unknown
		case errors.As(err, &told) && told.Kind == api.KindAway:
			repeat, maybe, next = o.again || !told.Unknown, maybe || told.Unknown, max(pause, told.RetryAfter)
		}
		left := time.Until(end)
		if !repeat || left <= 0 || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(min(next, left)):
		case <-ctx.Done():
			return err
		}
	}
}

// try makes a call once.
func (c *Client) try(ctx context.Context, o *order, body []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout+o.wait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, o.method, c.base+o.path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("control plane: %w", err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.o.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.o.Token)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return &UnreachableError{URL: c.base, Unknown: o.method != "GET" && !undialled(err), Cause: plainly(err)}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerMax+1))
	switch {
	case err != nil:
		return &UnreachableError{URL: c.base, Unknown: o.method != "GET", Cause: fmt.Errorf("the answer was cut: %w", err)}
	case len(answer) > answerMax:
		return fmt.Errorf("control plane: an answer of more than %d bytes", answerMax)
	case !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json"):
		return &UnreachableError{URL: c.base, Cause: fmt.Errorf("something else answers there: %s", resp.Status)}
	case resp.StatusCode != http.StatusOK:
		return c.refused(resp, answer)
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return &UnreachableError{URL: c.base, Cause: fmt.Errorf("its answer cannot be read: %w", err)}
	}
	return nil
}

// refused is the error of an answer that is one.
func (c *Client) refused(resp *http.Response, answer []byte) error {
	e := &api.Error{}
	if err := json.Unmarshal(answer, e); err != nil || e.Msg == "" || e.Kind == "" {
		return &UnreachableError{URL: c.base, Cause: fmt.Errorf("something else answers there: %s", resp.Status)}
	}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
		e.RetryAfter = time.Duration(min(n, 3600)) * time.Second
	}
	return e
}

// undialled is whether a request was never sent.
func undialled(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// plainly leaves out the method and URL that net/http puts in front.
func plainly(err error) error {
	var u interface{ Unwrap() error }
	if errors.As(err, &u) && u.Unwrap() != nil {
		return u.Unwrap()
	}
	return err
}
