package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	// batchMax is how many requests go to the collector at a time.
	batchMax = 256
	// gather is how long they wait for each other.
	gather = time.Second
	// attempts is how often the collector is asked to take a batch, with pauses from pauseLeast to
	// pauseMost between.
	attempts   = 5
	pauseLeast = 500 * time.Millisecond
	pauseMost  = 30 * time.Second
	// postMax bounds one attempt; closeMax all that go on or begin after Close is called.
	postMax  = 10 * time.Second
	closeMax = 2 * time.Second
	// answerMax is how much of the collector's answer is read.
	answerMax = 64 << 10
)

// run gathers records into batches and exports them.
func (t *Tracer) run() {
	defer close(t.ended)
	var batch []Record
	for {
		batch = batch[:0]
		select {
		case r := <-t.records:
			batch = append(batch, r)
		case <-t.stop:
			t.last(batch)
			return
		}
		late := time.NewTimer(gather)
	gathering:
		for len(batch) < batchMax {
			select {
			case r := <-t.records:
				batch = append(batch, r)
			case <-late.C:
				break gathering
			case <-t.stop:
				late.Stop()
				t.last(batch)
				return
			}
		}
		late.Stop()
		t.export(batch)
	}
}

// errEnd is why attempts end that Close has no more time for.
var errEnd = fmt.Errorf("no answer within %v of the end", closeMax)

// last exports what is there when Close is called, without a second attempt. What there is no time for is lost.
func (t *Tracer) last(batch []Record) {
	for {
		select {
		case r := <-t.records:
			batch = append(batch, r)
			continue
		default:
		}
		break
	}
	for len(batch) > 0 {
		if t.life.Err() != nil {
			t.lost.Add(uint64(len(batch)))
			return
		}
		n := min(len(batch), batchMax)
		t.export(batch[:n])
		batch = batch[n:]
	}
}

// export sends a batch until the collector takes it, for some attempts.
func (t *Tracer) export(batch []Record) {
	now := time.Now().UnixNano()
	body, err := proto.Marshal(t.request(batch, now, mono.Now()))
	pause := pauseLeast
	for n := 1; err == nil; n++ {
		var again time.Duration
		again, err = t.post(body)
		if err == nil || again < 0 || n == attempts || t.stopped() {
			break
		}
		err = nil
		select {
		case <-time.After(min(max(pause, again), pauseMost)):
			pause *= 2
		case <-t.stop: // once more, at once
		}
	}
	if err != nil {
		t.lost.Add(uint64(len(batch)))
	} else {
		t.exported.Add(uint64(len(batch)))
	}
	if (err != nil) != t.broken {
		t.broken = err != nil
		t.cfg.Failed(err)
	}
}

func (t *Tracer) stopped() bool {
	select {
	case <-t.stop:
		return true
	default:
		return false
	}
}

// post asks the collector once. again says when it may be asked again at the earliest; negative: it
// would not help.
func (t *Tracer) post(body []byte) (again time.Duration, err error) {
	ctx, cancel := context.WithTimeout(t.life, postMax)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	for k, v := range t.cfg.Headers {
		req.Header.Set(k, v)
	}
	resp, err := t.http.Do(req)
	if err != nil {
		if end := context.Cause(t.life); end != nil {
			err = fmt.Errorf("the collector at %s: %w", t.url, end)
		}
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return -1, rejected(answer)
	case resp.StatusCode == 429 || resp.StatusCode >= 502 && resp.StatusCode <= 504: // those that OTLP lets one try again
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return time.Duration(max(seconds, 0)) * time.Second, fmt.Errorf("the collector at %s answers %s", t.url, resp.Status)
	}
	return -1, fmt.Errorf("the collector at %s answers %s: %.200q", t.url, resp.Status, answer)
}

// rejected is the error of an answer that took the batch in part only (ExportTraceServiceResponse:
// partial_success = 1 {rejected_spans = 1, error_message = 2}).
func rejected(answer []byte) error {
	partial := field(answer, 1)
	if partial == nil {
		return nil
	}
	text, spans := field(partial, 2), uint64(0)
	for b := partial; len(b) > 0; {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		b = b[n:]
		if num == 1 && kind == protowire.VarintType {
			spans, _ = protowire.ConsumeVarint(b)
		}
		if n = protowire.ConsumeFieldValue(num, kind, b); n < 0 {
			return nil
		}
		b = b[n:]
	}
	if spans == 0 {
		return nil
	}
	return errors.New("the collector has taken all but " + strconv.FormatUint(spans, 10) + " spans: " + string(text))
}

// field is the first one of that number in a message that has a length; nil: there is none.
func field(b []byte, number protowire.Number) []byte {
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		b = b[n:]
		if num == number && kind == protowire.BytesType {
			v, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return nil
			}
			return v
		}
		if n = protowire.ConsumeFieldValue(num, kind, b); n < 0 {
			return nil
		}
		b = b[n:]
	}
	return nil
}
