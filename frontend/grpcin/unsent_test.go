package grpcin

import (
	"context"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/symphony-serving/symphony/frontend/grpcin/inference"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// unread asks for n replies of 400 kB over a stream of its own and reads none.
func unread(ctx context.Context, k *server, n int) inference.GRPCInferenceService_ModelStreamInferClient {
	stream, err := k.client.ModelStreamInfer(ctx)
	if err != nil {
		k.t.Fatal(err)
	}
	q := ask("big", "x", catalog.FP32, []int64{100_000}, make([]byte, 400_000))
	go func() {
		for range n {
			if stream.Send(q) != nil {
				return
			}
		}
		stream.CloseSend()
	}()
	return stream
}

// cost is what symphony_grpc_unsent_total says of replies or streams.
func cost(t *testing.T, r *prometheus.Registry, what string) int {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "symphony_grpc_unsent_total" && m.GetLabel()[0].GetValue() == what {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	t.Fatal("it is not counted: " + what)
	return 0
}

// Clients that do not read have the server keep so many bytes of replies and no more; who reads then has
// each reply, or an error in its place.
func TestUnreadRepliesAreBounded(t *testing.T) {
	const streams, asked, most = 4, 10, 2_000_000
	counted := prometheus.NewRegistry()
	k := start(t, Config{UnsentMax: most, BodyTime: time.Hour, Metrics: counted})
	held := make(chan struct{})
	k.fake.set(nil, held)
	var all []inference.GRPCInferenceService_ModelStreamInferClient
	for range streams {
		all = append(all, unread(within(t), k, asked))
	}
	until(t, "all wait", func() bool { return k.fake.waiting.Load() == streams*asked })
	close(held)
	until(t, "none waits", func() bool { return k.fake.waiting.Load() == 0 })
	answered, refused := 0, 0
	for _, stream := range all {
		for range asked {
			r, err := stream.Recv()
			switch {
			case err != nil:
				t.Fatal(err)
			case r.ErrorMessage == status.Convert(errUnsent).Message():
				refused++
			case r.ErrorMessage == "" && len(r.InferResponse.RawOutputContents[0]) == 400_000:
				answered++
			default:
				t.Fatalf("%.200v", r)
			}
			if n := k.unsent.Load(); n > most {
				t.Fatalf("%d bytes wait", n)
			}
		}
	}
	if refused == 0 || answered == 0 {
		t.Errorf("%d were answered and %d refused, want some of both", answered, refused)
	}
	if n := cost(t, counted, "reply"); n != refused {
		t.Errorf("%d refused replies are counted, want %d", n, refused)
	}
}

// A stream with much that is not read begins no more inferences until it is.
func TestUnreadStreamsWait(t *testing.T) {
	s := bare(t)
	for range 20 {
		k := &inferStream{s: s, order: make(chan chan *reply, 1), ended: make(chan error, 1)}
		k.unsent = unsent{s: s, less: make(chan struct{}, 1)}
		messages := make(chan *request, 1)
		messages <- s.request()
		if !k.unsent.add(5 << 20) {
			t.Fatal("5 MiB are too many")
		}
		k.ended <- io.EOF
		if err := k.run(within(t), messages); err != nil || len(messages) != 1 {
			t.Fatalf("%v, or a message was taken", err)
		}
		k.unsent.sent(5 << 20)
		go k.run(within(t), messages)
		answer := <-<-k.order
		k.ended <- io.EOF
		if len(answer.bytes) == 0 {
			t.Error("no answer")
		}
	}
}

// Where too much waits, a stream that takes nothing for long is ended, and its memory is free.
func TestUnreadStreamsAreEnded(t *testing.T) {
	counted := prometheus.NewRegistry()
	k := start(t, Config{UnsentMax: 5_000_000, BodyTime: 100 * time.Millisecond, Metrics: counted})
	held := make(chan struct{})
	k.fake.set(nil, held)
	stream := unread(within(t), k, 20)
	until(t, "all wait", func() bool { return k.fake.waiting.Load() == 20 })
	close(held)
	stacks := make([]byte, 4<<20)
	until(t, "the stream's end", func() bool {
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "grpcin.modelStreamInfer(")
	})
	if n := k.unsent.Load(); n != 0 {
		t.Errorf("%d bytes of replies are kept", n)
	}
	if n := cost(t, counted, "stream"); n != 1 {
		t.Errorf("%d streams are counted as ended, want 1", n)
	}
	for {
		if _, err := stream.Recv(); err != nil {
			if status.Code(err) != codes.Canceled {
				t.Errorf("%v, want %v", err, codes.Canceled)
			}
			return
		}
	}
}
