package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// errStalled ends a connection that has gone silent.
var errStalled = errors.New("the registry has gone silent")

// once asks for what is missing of the file, and appends it.
func (g Getter) once(ctx context.Context, f File, part string) (err error) {
	out, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	have, err := begin(out, f.Size)
	if err != nil || f.Size > 0 && have == f.Size {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	resp, have, err := ask(ctx, f, out, have)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	total, err := announced(resp, have, f.Size)
	if err != nil {
		return err
	}
	g.Progress.begin(filepath.Base(f.Path), have, total)
	defer g.Progress.end()
	bound := f.Size
	if bound == 0 {
		bound = sizeMax
	}
	// One byte more than there should be shows that there are more.
	got, err := g.copy(ctx, stop, out, io.LimitReader(resp.Body, bound-have+1))
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("the disk is full: %s has %d of %d bytes, and is kept: make room and try again", part, have+got, total)
	case err != nil:
		return err
	case have+got > bound:
		return errors.Join(fmt.Errorf("the registry sends more than %d bytes: it is not the pinned file", bound), os.Remove(part))
	case f.Size > 0 && have+got < f.Size:
		return &lostError{fmt.Errorf("the registry stopped after %d of %d bytes", have+got, f.Size)}
	}
	return nil
}

// begin is how much an earlier try left; more than the whole file is of another one.
func begin(out *os.File, size int64) (int64, error) {
	info, err := out.Stat()
	if err != nil || size == 0 || info.Size() <= size {
		return info.Size(), err
	}
	return 0, out.Truncate(0)
}

// ask sends the request. A registry that does not serve parts, or finds ours beyond the
// file's end, is asked for all: have becomes 0, and out empty.
func ask(ctx context.Context, f File, out *os.File, have int64) (*http.Response, int64, error) {
	r, err := request(ctx, f.URL)
	if err != nil {
		return nil, 0, err
	}
	if have > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	resp, err := answer(ctx, r)
	if err != nil {
		return nil, 0, err
	}
	var first int64
	if have > 0 && resp.StatusCode == http.StatusPartialContent {
		if _, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-", &first); err == nil && first == have {
			return resp, have, nil
		}
	}
	if have > 0 && resp.StatusCode == http.StatusOK {
		return resp, 0, out.Truncate(0)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, 0, nil
	}
	resp.Body.Close()
	if have > 0 && (resp.StatusCode == http.StatusRequestedRangeNotSatisfiable || resp.StatusCode == http.StatusPartialContent) {
		if err := out.Truncate(0); err != nil {
			return nil, 0, err
		}
		return ask(ctx, f, out, 0)
	}
	return nil, 0, refused(resp)
}

// refused is the error of a status. Those of the registry's own trouble may pass.
func refused(resp *http.Response) error {
	err := fmt.Errorf("the registry answers %s for %s", resp.Status, resp.Request.URL.Redacted())
	if resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests {
		return &lostError{err}
	}
	return err
}

// announced is the whole file's size as the registry says, -1 if it does not. What is
// not of the pinned size is refused before it comes.
func announced(resp *http.Response, have, pinned int64) (int64, error) {
	total := int64(-1)
	if resp.ContentLength >= 0 {
		total = have + resp.ContentLength
	}
	if pinned > 0 && total >= 0 && total != pinned {
		resp.Body.Close()
		return 0, fmt.Errorf("the registry's file has %d bytes, %d are pinned: it is another one", total, pinned)
	}
	return max(total, pinned), nil
}

// copy moves the body to the file and gives up when nothing comes.
func (g Getter) copy(ctx context.Context, stop context.CancelCauseFunc, out io.Writer, body io.Reader) (int64, error) {
	patience := g.Silence
	if patience == 0 {
		patience = silence
	}
	watch := time.AfterFunc(patience, func() { stop(errStalled) })
	defer watch.Stop()
	buf := make([]byte, 256<<10)
	var got int64
	for {
		n, err := body.Read(buf)
		if n > 0 {
			watch.Reset(patience)
			w, werr := out.Write(buf[:n])
			got += int64(w)
			g.Progress.add(int64(w))
			if werr != nil {
				return got, werr
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return got, nil
		case err == nil:
		case ctx.Err() != nil && !errors.Is(context.Cause(ctx), errStalled):
			return got, context.Cause(ctx)
		case ctx.Err() != nil:
			return got, &lostError{errStalled}
		default:
			return got, &lostError{fmt.Errorf("the connection to the registry broke: %w", err)}
		}
	}
}
