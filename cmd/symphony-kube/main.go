// Command symphony-kube carries out, in Kubernetes, what the control plane's autoscaler advises, and
// tells what happens to the nodes below. client-go is imported here alone; this is a Go module of
// its own, so that the main one stays without it.
//
//	controller --GET /v1/advice--> symphony-kube --scale subresource--> StatefulSets, Deployments of backends
//	                                     |  pod-deletion-cost --> pods of Deployments
//	                                     <-- nodes' conditions (NotReady, cordoned): log, metrics
//
// # Rules
//
//  1. A StatefulSet or Deployment takes part if it has the label that --selector names, and says in
//     annotations which backends it has: symphony.dev/device-type, min and max (pods), and scheduler
//     where there are several.
//  2. It never leaves [min, max], and grows as soon as the advice says so.
//  3. It shrinks by pods that the advice names, which the controller has drained, and by no other:
//     of a StatefulSet by its highest ordinals only (those above a named one that are not ready go with
//     it), of a Deployment after they were marked as the
//     cheapest to delete.
//  4. Without advice (no controller, an error, nothing of this type) nothing is changed.
//  5. It keeps no state: what it does follows from advice and cluster, each turn anew, so it may end,
//     start again, or run twice.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"
	appsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// options are the flags.
type options struct {
	control, namespace, selector, kubeconfig, metrics string
	interval                                          time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.control, "control", "http://127.0.0.1:8002", "URL of the control plane's API; its token is SYMPHONY_TOKEN")
	flag.StringVar(&o.namespace, "namespace", "default", "namespace of the backends")
	flag.StringVar(&o.selector, "selector", "symphony.dev/role=backend", "labels of the StatefulSets and Deployments that take part, and of their pods")
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "file that says where the cluster is; empty: this pod's own")
	flag.StringVar(&o.metrics, "metrics", "", "HOST:PORT of /metrics, /healthz and /readyz; empty: none")
	flag.DurationVar(&o.interval, "interval", 15*time.Second, "between two looks at the advice")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := zerolog.New(os.Stderr).With().Timestamp().Logger()
	if err := run(ctx, o, log); err != nil {
		fmt.Fprintln(os.Stderr, "symphony-kube:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, log zerolog.Logger) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("%q is no flag; see symphony-kube -help", flag.Arg(0))
	}
	if o.interval < time.Second || o.interval > time.Hour {
		return fmt.Errorf("-interval is %v, must be 1s to 1h", o.interval)
	}
	advisor, err := newAdvisor(o.control, os.Getenv("SYMPHONY_TOKEN"))
	if err != nil {
		return err
	}
	k8s, err := connect(o.kubeconfig)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	s := newScaler(k8s, advisor, o.namespace, o.selector, log, registry)
	if err := serve(o.metrics, registry, s, o.interval); err != nil {
		return err
	}
	n := watchNodes(s, log, registry)
	go n.run(ctx)
	s.run(ctx, o.interval)
	return nil
}

// cluster is what is spoken to: two groups of its API. (All of them would take a minute to compile.)
type cluster struct {
	apps appsv1.AppsV1Interface
	core corev1.CoreV1Interface
}

// connect finds the cluster.
func connect(kubeconfig string) (cluster, error) {
	c, err := rest.InClusterConfig()
	if kubeconfig != "" {
		c, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return cluster{}, fmt.Errorf("the cluster: %w; outside of a pod say where it is by -kubeconfig FILE", err)
	}
	c.UserAgent = "symphony-kube"
	apps, err := appsv1.NewForConfig(c)
	if err != nil {
		return cluster{}, fmt.Errorf("the cluster: %w", err)
	}
	core, err := corev1.NewForConfig(c)
	if err != nil {
		return cluster{}, fmt.Errorf("the cluster: %w", err)
	}
	return cluster{apps, core}, nil
}

// serve answers metrics and probes until the process ends.
func serve(address string, registry *prometheus.Registry, s *scaler, interval time.Duration) error {
	if address == "" {
		return nil
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("-metrics: %w", err)
	}
	server := &http.Server{Handler: probes(registry, s, interval), ReadHeaderTimeout: 5 * time.Second}
	go server.Serve(ln) // ends with the process
	return nil
}

// probes: it is alive while turns are made, and ready once one saw advice and cluster.
func probes(registry *prometheus.Registry, s *scaler, interval time.Duration) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if idle := time.Since(time.Unix(0, s.turned.Load())); idle > 4*interval+4*callMax {
			http.Error(w, fmt.Sprintf("no turn for %v", idle), http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !s.looked.Load() {
			http.Error(w, "it has not seen the advice and the cluster yet", http.StatusServiceUnavailable)
		}
	})
	return mux
}
