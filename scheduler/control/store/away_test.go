package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// pair is a store that has the etcd in it, and one that reaches it through a network that fails.
func pair(t *testing.T) (near, far *Store, net *proxy, log *logged, metrics *prometheus.Registry) {
	t.Helper()
	near, _ = open(t, Config{Ephemeral: true, Listen: "127.0.0.1:0"})
	net = newProxy(t, strings.TrimPrefix(near.Endpoint(), "http://"))
	metrics = prometheus.NewRegistry()
	far, log = open(t, Config{Endpoints: []string{near.Endpoint()}, Timeout: time.Second, LeaseTTL: 2 * time.Second, Metrics: metrics, dial: net.dial})
	return near, far, net, log, metrics
}

// While etcd is away calls fail in bounded time with what to do; it is said once, and counted.
// When it is back the watch goes on with what changed meanwhile, also with what was removed
// and forgotten (compaction); registrations are there again, and what was written waits no
// more. Whether bytes wait or connections break makes no difference.
func TestAway(t *testing.T) {
	for name, fail := range map[string]struct{ stall, cut bool }{"stalls": {stall: true}, "cut": {cut: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			near, far, net, log, metrics := pair(t)
			ctx := limited(t)
			for _, m := range []string{"kept", "removed", "changed"} {
				if _, err := near.Models.Create(ctx, model(m)); err != nil {
					t.Fatal(err)
				}
			}
			watch := far.Models.Watch(t.Context(), 0)
			if c, err := watch.Next(ctx); err != nil || !c.Whole || len(c.Changes) != 3 {
				t.Fatalf("%+v, %v", c, err)
			}
			if _, err := far.Register(schema.Backend{Name: "b", Devices: []schema.Device{{Name: "b/cpu/0", DeviceType: "cpu"}}}); err != nil {
				t.Fatal(err)
			}
			there := func() bool { n, err := near.Backends.Count(ctx); return err == nil && n == 1 }
			until(t, "the backend is registered", there)
			writer := far.Observed.Writer(t.Context())

			net.set(fail.stall, fail.cut)
			until(t, "it is known to be away", func() bool { s, _ := far.State(); return s.Away })
			failsInTime(t, far)
			if away, outages := gauges(t, metrics); away != 1 || outages != 1 {
				t.Errorf("away %v, outages %v", away, outages)
			}
			until(t, "the lease ends", func() bool { return !there() })
			meanwhile(t, near)
			if err := writer.Put(schema.Observation{Model: "m", Version: "1", State: schema.Serving}); err != nil {
				t.Error(err)
			}

			net.set(false, false)
			if err := far.Await(ctx); err != nil {
				t.Fatal(err)
			}
			told := map[string]Change[schema.Model]{}
			for len(told) < 3 {
				c, err := watch.Next(ctx)
				if err != nil {
					t.Fatalf("told of %v, then %v", told, err)
				}
				for _, one := range c.Changes {
					told[one.ID] = one
				}
			}
			if !told["removed"].Gone || told["changed"].Value.Desired != schema.Stopped || told["added"].Value.Name != "added" {
				t.Errorf("told %+v", told)
			}
			until(t, "the backend is registered again", there)
			if err := writer.Flush(ctx); err != nil {
				t.Error(err)
			}
			if o, err := near.Observed.Get(ctx, schema.ID("m", "1")); err != nil || o.Value.State != schema.Serving {
				t.Errorf("%+v, %v", o, err)
			}
			if log.count(`"message":"the control plane's etcd does not answer:`) != 1 || log.count("is back") != 1 {
				t.Error("not said once each")
			}
			if away, outages := gauges(t, metrics); away != 0 || outages != 1 {
				t.Errorf("away %v, outages %v", away, outages)
			}
		})
	}
}

// gauges are the store's metrics.
func gauges(t *testing.T, r *prometheus.Registry) (away, outages float64) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		switch f.GetName() {
		case "symphony_control_store_away":
			away = f.Metric[0].GetGauge().GetValue()
		case "symphony_control_store_outages_total":
			outages = f.Metric[0].GetCounter().GetValue()
		}
	}
	return away, outages
}

func failsInTime(t *testing.T, s *Store) {
	t.Helper()
	began := time.Now()
	_, err := s.Models.Create(context.Background(), model("x"))
	var away *AwayError
	if !errors.As(err, &away) || away.Since.IsZero() || away.Unknown {
		t.Errorf("%v", err)
	}
	for _, want := range []string{"counting models", "etcd at http://127.0.0.1", "does not answer for", "what is served goes on", "start etcd, or correct control.endpoints"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("it took %v", took)
	}
}

// meanwhile changes what the other store watches, and makes etcd forget how.
func meanwhile(t *testing.T, near *Store) {
	t.Helper()
	ctx := limited(t)
	if err := near.Models.Delete(ctx, "removed", 0); err != nil {
		t.Fatal(err)
	}
	if _, err := near.Models.Create(ctx, model("added")); err != nil {
		t.Fatal(err)
	}
	e, err := near.Models.Change(ctx, "changed", func(m *schema.Model) error { m.Desired = schema.Stopped; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := near.client.Compact(ctx, e.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
}

// A call that etcd never answers ends with the store's own limit, and says that a write may
// have happened; the caller's limit is the caller's error.
func TestCallsAreBounded(t *testing.T) {
	_, far, net, _, _ := pair(t)
	net.set(true, false)
	e := Entry[schema.Model]{Value: model("m")}
	_, err := far.Models.Update(context.Background(), e.Value, 0)
	var away *AwayError
	if !errors.As(err, &away) || !away.Unknown {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	until(t, "one of both errors", func() bool {
		_, err = far.Models.Get(ctx, "m")
		return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &away)
	})
	net.set(false, false)
}
