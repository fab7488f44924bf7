//go:build k8s

package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kedaSet is the values with KEDA, and the namespace that they are applied to.
const kedaSet = "rdma-keda"

const kedaBackends = "app.kubernetes.io/component=backend-cpu"

// testKEDA has a real scheduler, controller and backends (emulated devices), a backend for each pod that
// runs, and what KEDA and the HPA do: ask the external scaler, and set the replicas.
func testKEDA(t *testing.T, c *cluster) {
	scheduler, port, http := freePort(t), freePort(t), freePort(t)
	listen := fmt.Sprintf("tcp:127.0.0.1:%d", scheduler)
	c.start(t, "symphony", "scheduler", "--listen", listen)
	controller := func(least int) *process {
		file := c.write(t, fmt.Sprintf("controller-%d.yaml", least), fmt.Sprintf(`
control:
  data: %s
  http: 127.0.0.1:%d
  scheduler: %s
  keda: 127.0.0.1:%d
  autoscale:
    {scaler: kubernetes, interval: 1s, cool_up: 1s, cool_down: 3s, lead: 30s, drain: 60s, retry_max: 60s, max: 4, types: [{device_type: cpu, min: %d, max: 4, unit: 1}]}
`, filepath.Join(c.dir, "control"), http, listen, port, least))
		return c.start(t, "symphony", "controller", "--config", file)
	}
	first := controller(3)
	c.backends(t, listen)
	k := newKEDA(t, fmt.Sprintf("127.0.0.1:%d", port))
	k.scale(t, c)
	c.awaitReady(t, kedaSet, kedaBackends, 3)
	first.stop()
	controller(1) // of three two are to spare
	left := c.awaitReady(t, kedaSet, kedaBackends, 1)
	if left["symphony-backend-cpu-0"] == "" {
		t.Errorf("what is left is %v, not the lowest ordinal", left)
	}
}

// backends runs a backend for each pod that is ready, until the test ends; one whose pod has gone is told to end.
func (c *cluster) backends(t *testing.T, scheduler string) {
	t.Helper()
	bin := binDir(t)
	csv, err := filepath.Abs("../examples/zoo/zoo_a100.csv")
	if err != nil {
		t.Fatal(err)
	}
	file := c.write(t, "backend.yaml", fmt.Sprintf("backend:\n  scheduler: %s\n  pools: [{device_type: cpu, kind: emulated, devices: 1, zoo: [{csv: %s, models: [ResNet50]}]}]\n", scheduler, csv))
	aside(t, func(ctx context.Context) {
		run := map[string]*process{}
		defer func() {
			for _, p := range run {
				p.stop()
			}
		}()
		for ctx.Err() == nil {
			pods, err := c.ready(ctx, kedaSet, kedaBackends)
			for name := range pods {
				if run[name] != nil {
					continue
				}
				p, err := c.launch(bin, "symphony", "backend", "--config", file, "--name", name)
				if err != nil {
					t.Errorf("the backend of pod %s: %v", name, err)
					continue
				}
				run[name] = p
			}
			for name, p := range run {
				if _, there := pods[name]; err == nil && !there {
					p.stop()
					delete(run, name)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
}

// stop tells a process to end, and waits for it.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// keda speaks to an external scaler as KEDA does. Its few messages are written by hand, so that the
// test shows what is on the wire.
type keda struct{ conn *grpc.ClientConn }

// raw passes bytes on.
type raw struct{}

func (raw) Name() string                  { return "proto" }
func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(b []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), b...)
	return nil
}

func newKEDA(t *testing.T, address string) *keda {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &keda{conn}
}

// ref is the ScaledObject, with the metadata of its trigger.
func ref() []byte {
	entry := func(key, value string) []byte {
		return protowire.AppendString(protowire.AppendTag(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), key), 2, protowire.BytesType), value)
	}
	b := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "symphony-backend-cpu")
	b = protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), kedaSet)
	return protowire.AppendBytes(protowire.AppendTag(b, 3, protowire.BytesType), entry("deviceType", "cpu"))
}

// ask has the first of a reply's list, field by number.
func (k *keda) ask(ctx context.Context, method string, in []byte) (name string, whole int64, err error) {
	var out []byte
	if err := k.conn.Invoke(ctx, "/externalscaler.ExternalScaler/"+method, &in, &out); err != nil {
		return "", 0, err
	}
	_, _, n := protowire.ConsumeTag(out)
	if n < 0 {
		return "", 0, errors.New(method + " answers nothing")
	}
	item, n := protowire.ConsumeBytes(out[n:])
	if n < 0 {
		return "", 0, protowire.ParseError(n)
	}
	for len(item) > 0 {
		number, kind, n := protowire.ConsumeTag(item)
		if n < 0 {
			return "", 0, protowire.ParseError(n)
		}
		item = item[n:]
		switch {
		case number == 1 && kind == protowire.BytesType:
			name, n = protowire.ConsumeString(item)
		case number == 2 && kind == protowire.VarintType:
			var v uint64
			v, n = protowire.ConsumeVarint(item)
			whole = int64(v)
		default:
			n = protowire.ConsumeFieldValue(number, kind, item)
		}
		if n < 0 {
			return "", 0, protowire.ParseError(n)
		}
		item = item[n:]
	}
	return name, whole, nil
}

// wanted is the metric over its target: the HPA's quotient.
func (k *keda) wanted(ctx context.Context) (int32, error) {
	name, target, err := k.ask(ctx, "GetMetricSpec", ref())
	if err != nil {
		return 0, err
	}
	in := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), ref())
	_, value, err := k.ask(ctx, "GetMetrics", protowire.AppendString(protowire.AppendTag(in, 2, protowire.BytesType), name))
	if err != nil || target < 1 {
		return 0, errors.Join(err, fmt.Errorf("the target of %s is %d", name, target))
	}
	return int32((value + target - 1) / target), nil
}

// scale sets the replicas to what is wanted, until the test ends. Without an answer they stay.
func (k *keda) scale(t *testing.T, c *cluster) {
	t.Helper()
	aside(t, func(ctx context.Context) {
		sets := c.client.AppsV1().StatefulSets(kedaSet)
		for ctx.Err() == nil {
			call, cancel := context.WithTimeout(ctx, 5*time.Second)
			want, err := k.wanted(call)
			cancel()
			if os.Getenv("SYMPHONY_PRINT") != "" {
				fmt.Println("the external scaler wants", want, err)
			}
			if err == nil {
				if is, err := sets.GetScale(ctx, "symphony-backend-cpu", metav1.GetOptions{}); err == nil && is.Spec.Replicas != want {
					is.Spec.Replicas = max(1, want)
					_, _ = sets.UpdateScale(ctx, "symphony-backend-cpu", is, metav1.UpdateOptions{}) // a conflict: at the next look
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(500 * time.Millisecond):
			}
		}
	})
}
