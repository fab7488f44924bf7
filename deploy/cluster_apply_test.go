//go:build k8s

package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

// apply is `kubectl apply --server-side --validate=strict`, of what was rendered for that namespace.
func (c *cluster) apply(t *testing.T, namespace string, all []object) {
	t.Helper()
	for _, err := range c.refusals(t, namespace, all) {
		t.Error(err)
	}
}

// refusals applies, and has what the cluster did not take.
func (c *cluster) refusals(t *testing.T, namespace string, all []object) []error {
	t.Helper()
	groups, err := restmapper.GetAPIGroupResources(c.client.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	var out []error
	for _, o := range all {
		var u unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(o.text), &u.Object); err != nil {
			t.Fatal(err)
		}
		gvk := schema.FromAPIVersionAndKind(u.GetAPIVersion(), u.GetKind())
		m, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			t.Fatalf("%s: %v", &o, err)
		}
		text, err := json.Marshal(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		options := metav1.PatchOptions{FieldManager: "test", FieldValidation: metav1.FieldValidationStrict}
		to := c.dynamic.Resource(m.Resource)
		if m.Scope.Name() == meta.RESTScopeNameNamespace {
			if u.GetNamespace() != "" {
				namespace = u.GetNamespace()
			}
			_, err = to.Namespace(namespace).Patch(t.Context(), u.GetName(), types.ApplyPatchType, text, options)
		} else {
			_, err = to.Patch(t.Context(), u.GetName(), types.ApplyPatchType, text, options)
		}
		if err != nil {
			out = append(out, fmt.Errorf("%s: %w", &o, err))
		}
	}
	return out
}

// crds are the kinds of others, with a schema that takes anything: their fields are checked by their types.
const crds = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servicemonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {plural: servicemonitors, singular: servicemonitor, kind: ServiceMonitor}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: scaledobjects.keda.sh}
spec:
  group: keda.sh
  scope: Namespaced
  names: {plural: scaledobjects, singular: scaledobject, kind: ScaledObject}
  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

func (c *cluster) addCRDs(t *testing.T) {
	t.Helper()
	to := c.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for doc := range strings.SplitSeq(crds, "\n---\n") {
		var u unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatal(err)
		}
		if _, err := to.Create(t.Context(), &u, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		await(t, u.GetName(), func() error {
			is, err := to.Get(t.Context(), u.GetName(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			conditions, _, _ := unstructured.NestedSlice(is.Object, "status", "conditions")
			for _, x := range conditions {
				if m := x.(map[string]any); m["type"] == "Established" && m["status"] == "True" {
					return nil
				}
			}
			return fmt.Errorf("not established: %v", conditions)
		})
	}
}

// TestKubernetes applies everything to one cluster, and then uses it.
func TestKubernetes(t *testing.T) {
	c := startCluster(t)
	c.addCRDs(t)
	c.addRuntime(t, "nvidia")
	c.addVolumes(t, 12)
	c.addNodes(t, "plain", 4, 0, "")
	c.addNodes(t, "h100", 4, 8, "NVIDIA-H100-80GB-HBM3")
	c.addNodes(t, "t4", 3, 1, "Tesla-T4")
	c.kubelet(t)
	t.Run("strict", func(t *testing.T) {
		wrong := "apiVersion: v1\nkind: Service\nmetadata: {name: wrong}\nspec: {ports: [{port: 1, targetPorts: 2}]}\n"
		refused := c.refusals(t, "default", []object{{kind: "Service", name: "wrong", text: wrong}})
		if len(refused) != 1 || !strings.Contains(refused[0].Error(), "targetPorts") {
			t.Errorf("a field that there is not: %v", refused)
		}
	})
	t.Run("overlays", func(t *testing.T) {
		for _, name := range []string{"tcp", "rdma"} {
			c.namespace(t, "symphony")
			c.apply(t, "symphony", build(t, "kustomize/overlays/"+name))
			c.awaitReady(t, "symphony", "app.kubernetes.io/component=scheduler", 3)
			c.awaitReady(t, "symphony", "app.kubernetes.io/component=backend-cpu", 1)
			c.awaitReady(t, "symphony", "app.kubernetes.io/component=controller", 1)
		}
	})
	for name, values := range sets(t) {
		t.Run(name, func(t *testing.T) {
			c.namespace(t, name)
			files, err := renderIn(t, name, values)
			if err != nil {
				t.Fatal(err)
			}
			c.apply(t, name, objects(t, files))
			want := 3
			if name == "one-scheduler" {
				want = 1
			}
			c.awaitReady(t, name, "app.kubernetes.io/component=scheduler", want)
		})
	}
	t.Run("gpus", func(t *testing.T) { testPlacement(t, c) })
	t.Run("scaling", func(t *testing.T) { testScaling(t, c) })
	t.Run("keda", func(t *testing.T) { testKEDA(t, c) })
	t.Run("eviction", func(t *testing.T) { testEviction(t, c) })
}

const gpuSet = "gpus-kube" // the values with GPUs, and the namespace they are applied to

// testPlacement: pods with GPUs are on nodes that have them, and no more than there are.
func testPlacement(t *testing.T, c *cluster) {
	c.claimModels(t, gpuSet)
	used := map[string]int{}
	// By symphony-kube's advice there is one of each until it says more.
	for name, node := range c.awaitReady(t, gpuSet, "app.kubernetes.io/component=backend-h100", 1) {
		if used[node] += 4; !strings.HasPrefix(node, "h100-") || used[node] > 8 {
			t.Errorf("%s is on %s, whose GPUs in use are %d", name, node, used[node])
		}
	}
	for name, node := range c.awaitReady(t, gpuSet, "app.kubernetes.io/component=backend-t4", 1) {
		if !strings.HasPrefix(node, "t4-") {
			t.Errorf("%s is on %s", name, node)
		}
	}
}

// claimModels makes the claim of models that the values name.
func (c *cluster) claimModels(t *testing.T, namespace string) {
	t.Helper()
	var u unstructured.Unstructured
	if err := yaml.Unmarshal([]byte("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: models}\nspec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}\n"), &u.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := c.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}).Namespace(namespace).Create(t.Context(), &u, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// testScaling: symphony-kube carries advice out, up to what nodes take, and down by what was drained.
func testScaling(t *testing.T, c *cluster) {
	var text atomic.Pointer[string]
	say := func(want int, remove ...string) {
		names, _ := json.Marshal(append([]string{}, remove...))
		page := fmt.Sprintf(`{"scaler":"kubernetes","groups":[{"device_type":"h100","action":"add","size":%d,"unit":4,"why":"the test says so","remove":%s}]}`, want, names)
		text.Store(&page)
	}
	say(1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/advice" || r.Header.Get("Authorization") != "Bearer hush" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, *text.Load())
	}))
	t.Cleanup(server.Close)
	kube := c.start(t, "symphony-kube", "-control", server.URL, "-namespace", gpuSet, "-selector", "symphony.dev/role=backend", "-kubeconfig", c.kubeconfigOf(t, gpuSet, "symphony-kube"), "-interval", "1s")
	const h100 = "app.kubernetes.io/component=backend-h100"
	c.awaitReady(t, gpuSet, h100, 2) // scaling.min
	say(5)
	c.awaitReady(t, gpuSet, h100, 5)
	say(16) // of which eight find a node
	await(t, "sixteen are asked for", func() error { return c.asked(t.Context(), "symphony-backend-h100", 16) })
	c.awaitReady(t, gpuSet, h100, 8)
	await(t, "the log says that nodes are short of GPUs", func() error {
		if !strings.Contains(kube.String(), "Insufficient nvidia.com/gpu") {
			return fmt.Errorf("%s", kube.tail(5))
		}
		return nil
	})
	var gone []string
	for i := 15; i >= 4; i-- {
		gone = append(gone, fmt.Sprintf("symphony-backend-h100-%d", i))
	}
	say(3, gone...) // but only those from 4 on were drained
	left := c.awaitReady(t, gpuSet, h100, 4)
	for i := range 4 {
		if left[fmt.Sprintf("symphony-backend-h100-%d", i)] == "" {
			t.Errorf("pod %d is gone, and %v are left", i, left)
		}
	}
	if err := c.asked(t.Context(), "symphony-backend-h100", 4); err != nil {
		t.Error(err)
	}
	for _, node := range left {
		patch := []byte(`{"spec":{"unschedulable":true}}`)
		if _, err := c.client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		await(t, "the log says that the node was cordoned", func() error {
			if !strings.Contains(kube.String(), `"node":"`+node+`","state":"cordoned"`) {
				return fmt.Errorf("%s", kube.tail(5))
			}
			return nil
		})
		break
	}
}

func (c *cluster) asked(ctx context.Context, set string, want int32) error {
	s, err := c.client.AppsV1().StatefulSets(gpuSet).Get(ctx, set, metav1.GetOptions{})
	if err == nil && *s.Spec.Replicas != want {
		err = fmt.Errorf("%s has %d replicas, want %d", set, *s.Spec.Replicas, want)
	}
	return err
}

// testEviction: one scheduler may be evicted, a second one not before the first is back.
func testEviction(t *testing.T, c *cluster) {
	const schedulers = "app.kubernetes.io/component=scheduler"
	c.awaitReady(t, "default", schedulers, 3)
	await(t, "the budget has counted", func() error {
		b, err := c.client.PolicyV1().PodDisruptionBudgets("default").Get(t.Context(), "symphony-scheduler", metav1.GetOptions{})
		if err == nil && b.Status.DisruptionsAllowed != 1 {
			err = fmt.Errorf("%d may be evicted: %+v", b.Status.DisruptionsAllowed, b.Status)
		}
		return err
	})
	evict := func(pod string) error {
		return c.client.CoreV1().Pods("default").EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: "default"}})
	}
	// Nodes take no pods meanwhile, so that the one that was evicted does not come back.
	nodes, err := c.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cordon := func(on bool) {
		t.Helper()
		for _, n := range nodes.Items {
			if _, err := c.client.CoreV1().Nodes().Patch(t.Context(), n.Name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, on), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	cordon(true)
	if err := evict("symphony-scheduler-1"); err != nil {
		t.Fatalf("the first one: %v", err)
	}
	c.awaitReady(t, "default", schedulers, 2)
	if err := evict("symphony-scheduler-0"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the second one: %v, want that it is against the budget", err)
	}
	cordon(false)
	c.awaitReady(t, "default", schedulers, 3)
	await(t, "the next one may go when the first is back", func() error { return evict("symphony-scheduler-0") })
}
