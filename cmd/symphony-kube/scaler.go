package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

const (
	annotations    = "symphony.dev/" // of StatefulSets and Deployments: device-type, scheduler, min, max
	deletionCost   = "controller.kubernetes.io/pod-deletion-cost"
	costOfDeletion = "-1000" // of a pod that may go
)

// scaler carries the advice out, turn by turn. What is exported to probes is atomic; the rest is
// owned by run.
type scaler struct {
	cluster             cluster
	advisor             advisor
	namespace, selector string
	log                 zerolog.Logger
	metrics             *scalerMetrics

	turned atomic.Int64 // unix ns of the last turn's end
	looked atomic.Bool  // a turn saw advice and cluster

	told    string            // error that was logged last
	waiting map[string]string // pod that finds no node -> why, as logged
}

type scalerMetrics struct {
	scaled, failed *prometheus.CounterVec
	replicas       *prometheus.GaugeVec
	unplaced       prometheus.Gauge
}

func newScaler(k8s cluster, a advisor, namespace, selector string, log zerolog.Logger, r prometheus.Registerer) *scaler {
	m := &scalerMetrics{
		scaled:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "symphony_kube_scaled_total", Help: "Changes of replicas, by direction."}, []string{"name", "direction"}),
		failed:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "symphony_kube_failures_total", Help: "Turns that failed, by whom."}, []string{"at"}),
		replicas: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "symphony_kube_replicas", Help: "Replicas asked for."}, []string{"name"}),
		unplaced: prometheus.NewGauge(prometheus.GaugeOpts{Name: "symphony_kube_pods_unplaced", Help: "Pods of backends that no node takes."}),
	}
	r.MustRegister(m.scaled, m.failed, m.replicas, m.unplaced)
	s := &scaler{cluster: k8s, advisor: a, namespace: namespace, selector: selector, log: log, metrics: m, waiting: map[string]string{}}
	s.turned.Store(time.Now().UnixNano())
	return s
}

// run makes turns until ctx ends. A turn that fails is said once, and the next one tries again.
func (s *scaler) run(ctx context.Context, interval time.Duration) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		s.tell(s.turn(ctx), ctx)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// tell logs an error when it is another one than before, and that it is over.
func (s *scaler) tell(err error, ctx context.Context) {
	s.turned.Store(time.Now().UnixNano())
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == s.told || ctx.Err() != nil {
		return
	}
	s.told = text
	if err != nil {
		s.log.Error().Err(err).Msg("the advice could not be carried out; it is tried again, and nothing else is changed")
		return
	}
	s.log.Info().Msg("the advice is carried out again")
}

// turn looks at the advice and the cluster, and brings about what follows.
func (s *scaler) turn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*callMax)
	defer cancel()
	all, err := s.advisor.Advice(ctx)
	if err != nil {
		s.metrics.failed.WithLabelValues("advice").Inc()
		return err
	}
	groups, err := s.groups(ctx)
	if err != nil {
		s.metrics.failed.WithLabelValues("cluster").Inc()
		return err
	}
	s.looked.Store(true)
	var errs []error
	for _, d := range decide(groups, all) {
		if err := s.carryOut(ctx, d); err != nil {
			s.metrics.failed.WithLabelValues("scale").Inc()
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// groups are the StatefulSets and Deployments that take part, with their pods.
func (s *scaler) groups(ctx context.Context) ([]*group, error) {
	o := metav1.ListOptions{LabelSelector: s.selector}
	sets, err := s.cluster.apps.StatefulSets(s.namespace).List(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("the list of StatefulSets: %w", err)
	}
	deployments, err := s.cluster.apps.Deployments(s.namespace).List(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("the list of Deployments: %w", err)
	}
	pods, err := s.cluster.core.Pods(s.namespace).List(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("the list of pods: %w", err)
	}
	s.tellUnplaced(pods.Items)
	var out []*group
	for _, set := range sets.Items {
		if g := s.group("StatefulSet", set.ObjectMeta, set.Spec.Replicas); g != nil {
			g.ordinals = set.Spec.Ordinals == nil || set.Spec.Ordinals.Start == 0
			out = append(out, g.with(pods.Items, set.Spec.Selector))
		}
	}
	for _, d := range deployments.Items {
		if g := s.group("Deployment", d.ObjectMeta, d.Spec.Replicas); g != nil {
			out = append(out, g.with(pods.Items, d.Spec.Selector))
		}
	}
	return out, nil
}

// group reads what an object says of itself; nil: it does not take part.
func (s *scaler) group(kind string, meta metav1.ObjectMeta, replicas *int32) *group {
	deviceType := meta.Annotations[annotations+"device-type"]
	if deviceType == "" || meta.DeletionTimestamp != nil {
		return nil
	}
	g := &group{kind: kind, name: meta.Name, deviceType: deviceType, scheduler: meta.Annotations[annotations+"scheduler"], replicas: 1}
	if replicas != nil {
		g.replicas = int(*replicas)
	}
	for _, n := range []struct {
		key      string
		to       *int
		fallback int
	}{{"min", &g.min, 0}, {"max", &g.max, g.replicas}} {
		*n.to = n.fallback
		text, there := meta.Annotations[annotations+n.key]
		if !there {
			continue
		}
		v, err := strconv.Atoi(text)
		if err != nil || v < 0 {
			s.log.Error().Str("kind", kind).Str("name", g.name).Str("annotation", annotations+n.key).Str("value", text).Msg("no whole number: this one is not scaled")
			return nil
		}
		*n.to = v
	}
	s.metrics.replicas.WithLabelValues(g.name).Set(float64(g.replicas))
	return g
}

// with adds the pods that a selector takes, those that leave already excepted.
func (g *group) with(pods []corev1.Pod, selector *metav1.LabelSelector) *group {
	match, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return g
	}
	for _, p := range pods {
		if p.DeletionTimestamp == nil && match.Matches(labels.Set(p.Labels)) {
			g.pods = append(g.pods, p.Name)
			if isReady(&p) {
				g.ready = append(g.ready, p.Name)
			}
			if p.Annotations[deletionCost] == costOfDeletion {
				g.marked = append(g.marked, p.Name)
			}
		}
	}
	slices.Sort(g.pods)
	slices.Sort(g.marked)
	return g
}

// isReady: its probes say that it serves.
func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// carryOut changes one group. What is marked is marked before it shrinks.
func (s *scaler) carryOut(ctx context.Context, d decision) error {
	for _, pod := range d.dear {
		if err := s.mark(ctx, pod, "null"); err != nil {
			return err
		}
	}
	for _, pod := range d.cheap {
		if err := s.mark(ctx, pod, strconv.Quote(costOfDeletion)); err != nil {
			return err
		}
	}
	if d.replicas == d.group.replicas {
		return nil
	}
	before, err := s.scale(ctx, d)
	if err != nil {
		return fmt.Errorf("%s %s could not be scaled to %d: %w", d.group.kind, d.group.name, d.replicas, err)
	}
	direction := "up"
	if d.replicas < before {
		direction = "down"
	}
	s.metrics.scaled.WithLabelValues(d.group.name, direction).Inc()
	s.metrics.replicas.WithLabelValues(d.group.name).Set(float64(d.replicas))
	s.log.Info().Str("kind", d.group.kind).Str("name", d.group.name).Int("from", before).Int("to", d.replicas).Str("why", d.why).Strs("pods", d.cheap).Msg("scaled")
	return nil
}

// mark sets what it costs to delete a pod.
func (s *scaler) mark(ctx context.Context, pod, cost string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, deletionCost, cost)
	if _, err := s.cluster.core.Pods(s.namespace).Patch(ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("pod %s: what it costs to delete it could not be set: %w", pod, err)
	}
	return nil
}

// errMoved is that somebody else changed it meanwhile.
var errMoved = errors.New("its replicas were changed by somebody else just now")

// scale sets the scale subresource, where it is as it was looked at.
func (s *scaler) scale(ctx context.Context, d decision) (before int, err error) {
	get, update := s.cluster.apps.StatefulSets(s.namespace).GetScale, s.cluster.apps.StatefulSets(s.namespace).UpdateScale
	if d.group.kind == "Deployment" {
		get, update = s.cluster.apps.Deployments(s.namespace).GetScale, s.cluster.apps.Deployments(s.namespace).UpdateScale
	}
	is, err := get(ctx, d.group.name, metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	if int(is.Spec.Replicas) != d.group.replicas {
		return 0, errMoved
	}
	is.Spec.Replicas = int32(d.replicas) // its resourceVersion goes with it: a conflict is an error
	_, err = update(ctx, d.group.name, is, metav1.UpdateOptions{})
	return d.group.replicas, err
}

// tellUnplaced logs why pods find no node, once each: a scale-up that does not come.
func (s *scaler) tellUnplaced(pods []corev1.Pod) {
	now := map[string]string{}
	for _, p := range pods {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && p.DeletionTimestamp == nil {
				now[p.Name] = c.Message
			}
		}
	}
	for pod, why := range now {
		if s.waiting[pod] != why {
			s.log.Warn().Str("pod", pod).Str("cause", why).Msg("no node takes this backend; Kubernetes tries on")
		}
	}
	s.waiting = now
	s.metrics.unplaced.Set(float64(len(now)))
}
