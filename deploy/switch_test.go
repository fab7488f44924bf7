package deploy

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

// live is a cluster that has StatefulSets, for templates that look them up.
type live []runtime.Object

// GetClientFor implements engine.ClientProvider.
func (l live) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	if apiVersion != "apps/v1" || kind != "StatefulSet" {
		return nil, false, errors.New("the test has no " + kind)
	}
	return dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), l...).Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}), true, nil
}

// backendOver renders the backend "cpu" over a cluster, as an upgrade does.
func backendOver(t *testing.T, by string, there live) *appsv1.StatefulSet {
	t.Helper()
	v := map[string]any{}
	if err := yaml.Unmarshal([]byte("scaling: {by: "+by+"}"), &v); err != nil {
		t.Fatal(err)
	}
	c := load(t)
	in, err := chartutil.ToRenderValues(c, v, chartutil.ReleaseOptions{Name: "symphony", Namespace: "symphony", Revision: 2, IsUpgrade: true}, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.RenderWithClientProvider(c, in, there)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects(t, files) {
		if s, is := o.typed.(*appsv1.StatefulSet); is && strings.HasSuffix(o.name, "-backend-cpu") {
			return s
		}
	}
	t.Fatal("there is no backend")
	return nil
}

// Whoever turns scaling on keeps the backends that serve: a field that an upgrade leaves out, and the one
// before had, becomes Kubernetes' default, 1. What scaled from the start is never said.
func TestTurningScalingOnKeepsTheBackends(t *testing.T) {
	const key = "symphony.dev/replicas-by"
	set := func(replicas int64, by string) live {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": map[string]any{"name": "symphony-backend-cpu", "namespace": "symphony"}, "spec": map[string]any{"replicas": replicas}}}
		if by != "" {
			o.SetAnnotations(map[string]string{key: by})
		}
		return live{o}
	}
	for _, c := range []struct {
		name, by string
		there    live
		replicas int32 // 0: not said
		next     string
	}{
		{"none says its own", "none", set(7, "chart"), 1, "chart"},
		{"back to none", "none", set(7, "scaler"), 1, "chart"},
		{"none to kube", "kube", set(7, "chart"), 7, "kept"},
		{"none to keda", "keda", set(7, "chart"), 7, "kept"},
		{"of an older chart", "kube", set(7, ""), 7, "kept"},
		{"and the upgrade after it", "kube", set(9, "kept"), 9, "kept"},
		{"kube from the start", "kube", set(9, "scaler"), 0, "scaler"},
		{"a first install", "kube", nil, 0, "scaler"},
	} {
		s := backendOver(t, c.by, c.there)
		got := int32(0)
		if s.Spec.Replicas != nil {
			got = *s.Spec.Replicas
		}
		if got != c.replicas || s.Annotations[key] != c.next {
			t.Errorf("%s: replicas %d by %q, want %d by %q", c.name, got, s.Annotations[key], c.replicas, c.next)
		}
	}
}
