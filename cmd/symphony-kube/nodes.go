package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// nodes watches the nodes' conditions, and says of those that run backends what it means for them.
// The scheduler finds out by itself that links are gone; what it cannot know is why.
type nodes struct {
	s      *scaler
	log    zerolog.Logger
	away   *prometheus.GaugeVec
	states map[string]string // node -> state, as told; owned by the informer's one goroutine
	synced atomic.Bool
}

// resync is how often all nodes are looked at again, with what runs on them then.
const resync = 10 * time.Minute

func watchNodes(s *scaler, log zerolog.Logger, r prometheus.Registerer) *nodes {
	n := &nodes{s: s, log: log, states: map[string]string{},
		away: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "symphony_kube_node_away", Help: "1: a node with backends that is not ready, or cordoned."}, []string{"node", "state"})}
	r.MustRegister(n.away)
	return n
}

// run watches until ctx ends.
func (n *nodes) run(ctx context.Context) {
	all := n.s.cluster.core.Nodes()
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{ObjectType: &corev1.Node{}, ResyncPeriod: resync,
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return all.List(ctx, o) },
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return all.Watch(ctx, o) },
		}, n.s.cluster.core), // which says what it cannot: client-go's fakes
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { n.look(ctx, o, false) },
			UpdateFunc: func(_, o any) { n.look(ctx, o, false) },
			DeleteFunc: func(o any) { n.look(ctx, o, true) },
		}})
	ended := make(chan struct{})
	go func() { defer close(ended); informer.RunWithContext(ctx) }()
	n.synced.Store(cache.WaitForCacheSync(ctx.Done(), informer.HasSynced))
	<-ended
}

// stateOf is what a node says of itself; "": it is well.
func stateOf(node *corev1.Node, gone bool) string {
	if gone {
		return "gone"
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return "not ready"
		}
	}
	if node.Spec.Unschedulable {
		return "cordoned"
	}
	return ""
}

func (n *nodes) look(ctx context.Context, o any, gone bool) {
	if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	node, ok := o.(*corev1.Node)
	if !ok {
		return
	}
	before, now := n.states[node.Name], stateOf(node, gone)
	if before == now {
		return
	}
	n.states[node.Name] = now
	if before != "" {
		n.away.DeleteLabelValues(node.Name, before)
	}
	if gone {
		delete(n.states, node.Name)
	}
	backends, err := n.backendsOn(ctx, node.Name)
	switch {
	case err != nil:
		n.log.Warn().Str("node", node.Name).Str("state", now).Err(err).Msg("which backends run there is not known")
	case len(backends) == 0:
		return
	}
	if now == "" {
		n.log.Info().Str("node", node.Name).Strs("backends", backends).Msg("node is well again")
		return
	}
	if !gone {
		n.away.WithLabelValues(node.Name, now).Set(1)
	}
	n.log.Warn().Str("node", node.Name).Str("state", now).Strs("backends", backends).Str("gpus", gpusOf(node)).Msg(meaning(now))
}

func meaning(state string) string {
	if state == "cordoned" {
		return "node takes no new pods: its backends serve until they are evicted, and come back elsewhere"
	}
	return "node is away: its GPUs are out of service until it is back, or Kubernetes has given its pods up"
}

// gpusOf are the devices of vendors that a node has, by name.
func gpusOf(node *corev1.Node) string {
	var all []string
	for name, q := range node.Status.Capacity {
		if text := string(name); slices.Contains([]string{"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915"}, text) {
			all = append(all, fmt.Sprintf("%s %s", q.String(), text))
		}
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}

// backendsOn are the names of our pods of a node.
func (n *nodes) backendsOn(ctx context.Context, node string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	pods, err := n.s.cluster.core.Pods(n.s.namespace).List(ctx, metav1.ListOptions{LabelSelector: n.s.selector})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range pods.Items {
		if p.Spec.NodeName == node {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	return out, nil
}
