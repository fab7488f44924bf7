package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	appsfake "k8s.io/client-go/kubernetes/typed/apps/v1/fake"
	corefake "k8s.io/client-go/kubernetes/typed/core/v1/fake"
	k8stesting "k8s.io/client-go/testing"
)

// lines is a log that tests read while others write.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// said is an advisor that says what the test says.
type said struct {
	all []advice
	err error
}

func (s *said) Advice(context.Context) ([]advice, error) { return s.all, s.err }

func meta(name string, annotations ...string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: name, Namespace: "ns", Labels: map[string]string{"symphony.dev/role": "backend", "app": name}, Annotations: map[string]string{}}
	for i := 0; i < len(annotations); i += 2 {
		m.Annotations["symphony.dev/"+annotations[i]] = annotations[i+1]
	}
	return m
}

func pod(of, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", Labels: map[string]string{"symphony.dev/role": "backend", "app": of}}}
}

// fakeCluster is client-go's, of the groups that we use.
type fakeCluster struct {
	k8stesting.Fake
	tracker k8stesting.ObjectTracker
}

// fakeCore says that it has no watches that begin with a list.
type fakeCore struct{ *corefake.FakeCoreV1 }

func (fakeCore) IsWatchListSemanticsUnSupported() bool { return true }

func (c *fakeCluster) AppsV1() *appsfake.FakeAppsV1 { return &appsfake.FakeAppsV1{Fake: &c.Fake} }
func (c *fakeCluster) CoreV1() *corefake.FakeCoreV1 { return &corefake.FakeCoreV1{Fake: &c.Fake} }

// newFake has scale subresources that work on spec.replicas, and conflict as often as said.
func newFake(t *testing.T, conflicts *int, objects ...runtime.Object) *fakeCluster {
	t.Helper()
	c := &fakeCluster{tracker: k8stesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder())}
	for _, o := range objects {
		if err := c.tracker.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	c.AddReactor("*", "*", k8stesting.ObjectReaction(c.tracker))
	c.AddWatchReactor("*", func(a k8stesting.Action) (bool, watch.Interface, error) {
		w, err := c.tracker.Watch(a.GetResource(), a.GetNamespace())
		return true, w, err
	})
	replicas := func(gvr schema.GroupVersionResource, ns, name string) (runtime.Object, *int32, error) {
		o, err := c.tracker.Get(gvr, ns, name)
		switch o := o.(type) {
		case *appsv1.StatefulSet:
			return o, o.Spec.Replicas, err
		case *appsv1.Deployment:
			return o, o.Spec.Replicas, err
		}
		return nil, nil, err
	}
	for _, resource := range []string{"statefulsets", "deployments"} {
		c.PrependReactor("get", resource, func(a k8stesting.Action) (bool, runtime.Object, error) {
			if a.GetSubresource() != "scale" {
				return false, nil, nil
			}
			name := a.(k8stesting.GetAction).GetName()
			_, n, err := replicas(a.GetResource(), a.GetNamespace(), name)
			if err != nil {
				return true, nil, err
			}
			return true, &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}, Spec: autoscalingv1.ScaleSpec{Replicas: *n}}, nil
		})
		c.PrependReactor("update", resource, func(a k8stesting.Action) (bool, runtime.Object, error) {
			if a.GetSubresource() != "scale" {
				return false, nil, nil
			}
			s := a.(k8stesting.UpdateAction).GetObject().(*autoscalingv1.Scale)
			if conflicts != nil && *conflicts > 0 {
				*conflicts--
				return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), s.Name, errors.New("changed"))
			}
			o, n, err := replicas(a.GetResource(), a.GetNamespace(), s.Name)
			if err != nil {
				return true, nil, err
			}
			*n = s.Spec.Replicas
			return true, s, c.tracker.Update(a.GetResource(), o, "ns")
		})
	}
	return c
}

func statefulSet(name string, replicas int32, annotations ...string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: meta(name, annotations...), Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}}}
}

func scalerOf(c *fakeCluster, a advisor) (*scaler, *lines) {
	log := &lines{}
	return newScaler(cluster{c.AppsV1(), fakeCore{c.CoreV1()}}, a, "ns", "symphony.dev/role=backend", zerolog.New(log), prometheus.NewRegistry()), log
}

func replicasOf(t *testing.T, c *fakeCluster, name string) int32 {
	t.Helper()
	s, err := c.AppsV1().StatefulSets("ns").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return *s.Spec.Replicas
}

// Advice scales a StatefulSet up at once, and down by what was drained; others are left alone.
func TestScalesStatefulSets(t *testing.T) {
	other := statefulSet("other", 7, "device-type", "h100")
	other.Labels = map[string]string{"app": "other"} // no backend
	c := newFake(t, nil, statefulSet("b", 2, "device-type", "h100", "min", "1", "max", "8"), statefulSet("plain", 3), other)
	a := &said{all: []advice{{DeviceType: "h100", Action: "add", Size: 4, Why: "1.2 % of requests are bad"}}}
	s, log := scalerOf(c, a)
	if err := s.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := replicasOf(t, c, "b"); n != 4 {
		t.Errorf("b has %d replicas, want 4", n)
	}
	if !strings.Contains(log.String(), `"from":2,"to":4,"why":"1.2 % of requests are bad"`) {
		t.Errorf("the log does not say what was done, and why:\n%s", log)
	}
	for _, step := range []struct {
		remove []string
		want   int32
	}{{nil, 4}, {[]string{"b-1"}, 4}, {[]string{"b-3"}, 3}, {[]string{"b-3", "b-2", "b-1"}, 1}} {
		a.all = []advice{{DeviceType: "h100", Action: "drain", Size: 1, Remove: step.remove}}
		if err := s.turn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := replicasOf(t, c, "b"); n != step.want {
			t.Errorf("when %v may go b has %d replicas, want %d", step.remove, n, step.want)
		}
	}
	if replicasOf(t, c, "plain") != 3 || replicasOf(t, c, "other") != 7 {
		t.Error("what takes no part was scaled")
	}
}

// The pods of a Deployment that may go are marked before it shrinks.
func TestMarksPodsOfDeployments(t *testing.T) {
	three := int32(3)
	d := &appsv1.Deployment{ObjectMeta: meta("d", "device-type", "t4", "max", "9"), Spec: appsv1.DeploymentSpec{Replicas: &three, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "d"}}}}
	c := newFake(t, nil, d, pod("d", "d-x"), pod("d", "d-y"), pod("d", "d-z"), pod("e", "e-x"))
	a := &said{all: []advice{{DeviceType: "t4", Size: 2, Remove: []string{"d-y", "e-x"}}}}
	s, _ := scalerOf(c, a)
	if err := s.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	cost := func(name string) string {
		p, err := c.CoreV1().Pods("ns").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p.Annotations["controller.kubernetes.io/pod-deletion-cost"]
	}
	if cost("d-x") != "" || cost("d-y") != "-1000" || cost("e-x") != "" {
		t.Errorf("costs are %q, %q, %q", cost("d-x"), cost("d-y"), cost("e-x"))
	}
	var order []string
	for _, action := range c.Actions() {
		if action.GetVerb() == "patch" || action.GetVerb() == "update" {
			order = append(order, action.GetVerb()+" "+action.GetResource().Resource)
		}
	}
	if text := strings.Join(order, ", "); text != "patch pods, update deployments" {
		t.Errorf("it did %s", text)
	}
	a.all = []advice{{DeviceType: "t4", Size: 2}} // d-y is wanted after all
	if err := s.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if cost("d-y") != "" {
		t.Errorf("d-y is still marked with %q", cost("d-y"))
	}
}

// Without advice nothing changes; an error is said once, and its end.
func TestChangesNothingWithoutAdvice(t *testing.T) {
	c := newFake(t, nil, statefulSet("b", 2, "device-type", "h100"))
	a := &said{err: errors.New("no leader")}
	s, log := scalerOf(c, a)
	for range 3 {
		s.tell(s.turn(t.Context()), t.Context())
	}
	if s.looked.Load() || replicasOf(t, c, "b") != 2 {
		t.Error("it has changed something, or says that it has looked")
	}
	a.err = nil
	s.tell(s.turn(t.Context()), t.Context())
	if !s.looked.Load() {
		t.Error("it has not looked")
	}
	if text := log.String(); strings.Count(text, "no leader") != 1 || !strings.Contains(text, "carried out again") {
		t.Errorf("the log is\n%s", text)
	}
	for _, action := range c.Actions() {
		if action.GetVerb() != "list" && action.GetVerb() != "get" {
			t.Errorf("it did %s %s", action.GetVerb(), action.GetResource().Resource)
		}
	}
}

// A conflict, or replicas that somebody else has just changed, are an error of this turn; the next one
// looks again.
func TestConflict(t *testing.T) {
	conflicts := 1
	c := newFake(t, &conflicts, statefulSet("b", 2, "device-type", "h100", "max", "9"))
	s, _ := scalerOf(c, &said{all: []advice{{DeviceType: "h100", Size: 5}}})
	if err := s.turn(t.Context()); err == nil || !strings.Contains(err.Error(), "StatefulSet b could not be scaled to 5") {
		t.Errorf("the first turn: %v", err)
	}
	if err := s.turn(t.Context()); err != nil || replicasOf(t, c, "b") != 5 {
		t.Errorf("the second turn: %v, %d replicas", err, replicasOf(t, c, "b"))
	}
	stale := decision{group: &group{kind: "StatefulSet", name: "b", replicas: 2}, replicas: 3}
	if err := s.carryOut(t.Context(), stale); !errors.Is(err, errMoved) || replicasOf(t, c, "b") != 5 {
		t.Errorf("a decision on 2 replicas where there are 5: %v", err)
	}
}

// Annotations that are no numbers leave that one out, with a word; a pod without a node is said once.
func TestSaysWhatIsWrong(t *testing.T) {
	p := pod("b", "b-3")
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/5 nodes: Insufficient nvidia.com/gpu"}}
	c := newFake(t, nil, statefulSet("b", 2, "device-type", "h100", "max", "many"), p)
	s, log := scalerOf(c, &said{all: []advice{{DeviceType: "h100", Size: 5}}})
	for range 2 {
		if err := s.turn(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if replicasOf(t, c, "b") != 2 || !strings.Contains(log.String(), "symphony.dev/max") {
		t.Errorf("%d replicas; %s", replicasOf(t, c, "b"), log)
	}
	if n := strings.Count(log.String(), "Insufficient nvidia.com/gpu"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log)
	}
}

// A pod that no node takes does not keep those below it from going.
func TestAPodThatNeverCame(t *testing.T) {
	objects := []runtime.Object{statefulSet("b", 5, "device-type", "h100", "max", "8")}
	for i := range 5 {
		p := pod("b", fmt.Sprintf("b-%d", i))
		ready := corev1.ConditionTrue
		if i == 4 {
			ready = corev1.ConditionFalse
		}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		objects = append(objects, p)
	}
	c := newFake(t, nil, objects...)
	s, _ := scalerOf(c, &said{all: []advice{{DeviceType: "h100", Action: "keep", Size: 3, Remove: []string{"b-3"}}}})
	if err := s.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := replicasOf(t, c, "b"); n != 3 {
		t.Errorf("%d replicas, want 3", n)
	}
}

// The control plane's answers, and what is wrong with them.
func TestAdviceByHTTP(t *testing.T) {
	status, body := 200, `{"at":"2026-01-01T00:00:00Z","scaler":"kubernetes","groups":[{"device_type":"h100","action":"add","size":5,"unit":4,"why":"w","remove":["b-2"],"parts":[]}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/advice" || r.Header.Get("Authorization") != "Bearer secret" {
			status = 401
		}
		w.WriteHeader(status)
		w.Write([]byte(body))
	}))
	defer server.Close()
	a, err := newAdvisor(server.URL+"/", "secret")
	if err != nil {
		t.Fatal(err)
	}
	got, err := a.Advice(t.Context())
	if err != nil || len(got) != 1 || got[0].DeviceType != "h100" || got[0].Size != 5 || got[0].Remove[0] != "b-2" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, c := range []struct {
		status     int
		body, want string
	}{{503, "no leader yet", "503 Service Unavailable: no leader yet"}, {200, "<html>", "is " + server.URL + "/v1/advice a control plane"}, {200, `{"scaler":"none"}`, "set control.autoscale.scaler to kubernetes"}, {200, `"` + strings.Repeat("x", answerMax) + `"`, "too long"}} {
		status, body = c.status, c.body
		if _, err := a.Advice(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d: %v, want %q", c.status, err, c.want)
		}
	}
	for _, address := range []string{"", "127.0.0.1:8002", "tcp://a:1", "http://"} {
		if _, err := newAdvisor(address, ""); err == nil || !strings.Contains(err.Error(), "-control") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// Behind a Service with several controllers a connection that is kept stays with one: it is given up
// where that one does not lead, and kept where it does.
func TestAnotherControllerIsTried(t *testing.T) {
	status := http.StatusConflict
	var from []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from = append(from, r.RemoteAddr)
		w.WriteHeader(status)
		w.Write([]byte(`{"scaler":"kubernetes"}`))
	}))
	defer server.Close()
	a, err := newAdvisor(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, status = range []int{http.StatusConflict, http.StatusConflict, http.StatusOK, http.StatusOK} {
		if _, err := a.Advice(t.Context()); (err == nil) != (status == http.StatusOK) {
			t.Errorf("%d: %v", status, err)
		}
	}
	if from[0] == from[1] || from[1] == from[2] || from[2] != from[3] {
		t.Errorf("asked from %v", from)
	}
}

// A node that goes is said with the backends that run there, once for each change; others are not.
func TestNodes(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus, cordoned bool) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Unschedulable: cordoned},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	}
	p := pod("b", "b-0")
	p.Spec.NodeName = "gpus"
	c := newFake(t, nil, p, node("gpus", corev1.ConditionTrue, false), node("others", corev1.ConditionTrue, false))
	s, log := scalerOf(c, &said{})
	n := watchNodes(s, s.log, prometheus.NewRegistry())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { n.run(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	await := func(what string, times int) {
		t.Helper()
		for until := time.Now().Add(30 * time.Second); strings.Count(log.String(), what) < times; time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("%q is not said %d times:\n%s", what, times, log)
			}
		}
	}
	for until := time.Now().Add(30 * time.Second); !n.synced.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the nodes do not come")
		}
	}
	update := func(o *corev1.Node) {
		t.Helper()
		if _, err := c.CoreV1().Nodes().Update(ctx, o, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	update(node("others", corev1.ConditionUnknown, false))
	update(node("gpus", corev1.ConditionTrue, true))
	await(`"state":"cordoned","backends":["b-0"]`, 1)
	update(node("gpus", corev1.ConditionUnknown, true))
	await(`"state":"not ready","backends":["b-0"]`, 1)
	update(node("gpus", corev1.ConditionTrue, false))
	await("node is well again", 1)
	if err := c.CoreV1().Nodes().Delete(ctx, "gpus", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(`"state":"gone","backends":["b-0"]`, 1)
	if strings.Contains(log.String(), `"node":"others"`) {
		t.Errorf("a node without backends is told of:\n%s", log)
	}
}

// The probes: alive while turns are made, ready once advice and cluster were seen.
func TestProbes(t *testing.T) {
	s, _ := scalerOf(newFake(t, nil), &said{})
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/metrics": 200} {
		if got := probe(t, s, path); got != want {
			t.Errorf("at the start %s is %d, want %d", path, got, want)
		}
	}
	if err := s.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.turned.Store(time.Now().Add(-time.Hour).UnixNano())
	for path, want := range map[string]int{"/healthz": 503, "/readyz": 200} {
		if got := probe(t, s, path); got != want {
			t.Errorf("after a turn an hour ago %s is %d, want %d", path, got, want)
		}
	}
}

func probe(t *testing.T, s *scaler, path string) int {
	t.Helper()
	w := httptest.NewRecorder()
	probes(prometheus.NewRegistry(), s, time.Second).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code
}
