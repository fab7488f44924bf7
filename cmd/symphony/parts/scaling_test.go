package parts

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/client"
	"github.com/symphony-serving/symphony/scheduler/control/keda/externalscaler"
	"github.com/symphony-serving/symphony/transport/mono"
)

// scaled is a system of one GPU whose control plane is to have three.
func scaled(t *testing.T, change func(c *config.Control)) *System {
	t.Helper()
	p, log := elsewhere(t, "")
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log)
		}
	})
	c := &p.cfg.Control
	c.Endpoints, c.Ephemeral, c.Lease = nil, true, config.Default().Control.Lease
	a := &c.Autoscale
	a.Min, a.Max, a.Interval, a.CoolUp, a.Lead = 3, 8, mono.Second, mono.Second, 2*mono.Second
	change(c)
	s, err := p.Serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Drain(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// eventually waits until something is so.
// From the scheduler's facts to the command: it is told how many replicas there are to be, and, since
// none comes, told again; the advice says so.
func TestTheScalersCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "told")
	s := scaled(t, func(c *config.Control) {
		c.Autoscale.Scaler = config.ScalerExec
		c.Autoscale.Command = []string{"/bin/sh", "-c", `echo "$1 $2 $SYMPHONY_SCALE_TRY" >> ` + path, "sh", "{device_type}", "{size}"}
	})
	eventually(t, "the command is told twice", func() bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.HasPrefix(string(text), "e 3 1\ne 3 2\n")
	})
	c, err := client.New(client.Options{URL: "http://" + s.Control.Address})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a, err := c.Advice(t.Context())
	if err != nil || len(a.Groups) != 1 || a.Scaler != "exec" {
		t.Fatalf("%+v, %v", a, err)
	}
	if g := a.Groups[0]; g.DeviceType != "e" || g.Size != 3 || g.GPUs != 1 || g.Serving != 1 || g.Action != api.ScaleAwait || g.Try < 2 || !strings.Contains(g.Why, "at least 3 by min") {
		t.Errorf("%+v", g)
	}
}

// KEDA's calls reach the controller's advice; before there is any they say so.
func TestKEDA(t *testing.T) {
	s := scaled(t, func(c *config.Control) { c.KEDA, c.Autoscale.Scaler = "127.0.0.1:0", config.ScalerKubernetes })
	conn, err := grpc.NewClient(s.Control.KEDA, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := externalscaler.NewExternalScalerClient(conn)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	eventually(t, "the metric is the size", func() bool {
		m, err := c.GetMetrics(ctx, &externalscaler.GetMetricsRequest{ScaledObjectRef: &externalscaler.ScaledObjectRef{Name: "gpu"}, MetricName: "symphony-replicas-e"})
		if err != nil && status.Code(err) != codes.Unavailable {
			t.Fatal(err)
		}
		return err == nil && m.MetricValues[0].MetricValueFloat == 3
	})
}
