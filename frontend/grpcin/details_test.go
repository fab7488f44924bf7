package grpcin

import (
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/grpcin/inference"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

func yes() *inference.InferParameter {
	return &inference.InferParameter{ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: true}}
}

// A request's priority goes with it, alone and in a batch; none is the default.
func TestPriority(t *testing.T) {
	k := start(t, Config{})
	for _, items := range []int64{1, 2} {
		q := ask("echo-FP32", "x", catalog.FP32, []int64{items, 2, 3}, make([]byte, 24*items))
		for _, priority := range []int64{1, 255, 0} {
			if q.Parameters = param("priority", number(priority)); priority == 0 {
				q.Parameters = nil
			}
			if _, err := k.client.ModelInfer(within(t), q); err != nil || int64(k.fake.rank.Load()) != priority {
				t.Errorf("priority %d, want %d: %v", k.fake.rank.Load(), priority, err)
			}
		}
	}
}

// So does its class, and others than the two are refused.
func TestClass(t *testing.T) {
	k := start(t, Config{})
	for _, items := range []int64{1, 2} {
		q := ask("echo-FP32", "x", catalog.FP32, []int64{items, 2, 3}, make([]byte, 24*items))
		for name, class := range map[string]wire.Class{"best_effort": wire.ClassBestEffort, "latency": wire.ClassLatency} {
			q.Parameters = param("class", word(name))
			if _, err := k.client.ModelInfer(within(t), q); err != nil || wire.Class(k.fake.rank.Load()>>8) != class {
				t.Errorf("%s: class %d: %v", name, k.fake.rank.Load()>>8, err)
			}
		}
	}
}

// Who asks for details is told what symphony explain takes, of each item; and of what was dropped, everybody.
func TestDetails(t *testing.T) {
	k := start(t, Config{})
	q := ask("echo-FP32", "x", catalog.FP32, []int64{2, 2, 3}, make([]byte, 48))
	a, err := k.client.ModelInfer(within(t), q)
	if err != nil || a.Parameters["request"] != nil {
		t.Errorf("%v, %v: nobody asked for details", a, err)
	}
	q.Parameters = param("details", yes())
	if a, err = k.client.ModelInfer(within(t), q); err != nil || a.Parameters["request"].GetStringParam() != "3-ff,3-ff" || a.Parameters["gpu"].GetInt64Param() != 2 {
		t.Errorf("%v, %v: want the ids of two items", a, err)
	}
	for reason, kind := range map[wire.Reason]error{wire.ReasonShed: frontend.ErrDropped, wire.ReasonDeadline: frontend.ErrDropped,
		wire.ReasonFull: frontend.ErrOverloaded, wire.ReasonBackendLost: frontend.ErrUnavailable, wire.ReasonExecution: frontend.ErrFailed} {
		k.fake.set(&frontend.Error{Kind: kind, Reason: reason, Frontend: 3, Request: 255}, nil)
		_, err = k.client.ModelInfer(within(t), q)
		told := ""
		for _, d := range status.Convert(err).Details() {
			if info, ok := d.(*errdetails.ErrorInfo); ok {
				told = info.Metadata["request"]
			}
		}
		if told != "3-ff" {
			t.Errorf("%v tells of request %q, want 3-ff", err, told)
		}
	}
}
