package deploy

import (
	"fmt"
	"strings"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// reporter is what the checks need of testing.T.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// recorder notes that a check found something, for the tests of the checks themselves.
type recorder struct{ failed bool }

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

// Fatalf ends what run runs.
func (r *recorder) Fatalf(string, ...any) { r.failed = true; panic(r) }

func (r *recorder) run(f func()) {
	defer func() {
		if p := recover(); p != nil && p != any(r) {
			panic(p)
		}
	}()
	f()
}

// object is one of a manifest, in its type.
type object struct {
	kind, name string
	text       string
	typed      any
}

// kinds are the types that manifests may have: what is not here nobody has checked.
func kinds() map[string]func() any {
	return map[string]func() any{
		"v1/ConfigMap":                                    func() any { return &corev1.ConfigMap{} },
		"v1/Service":                                      func() any { return &corev1.Service{} },
		"v1/ServiceAccount":                               func() any { return &corev1.ServiceAccount{} },
		"apps/v1/Deployment":                              func() any { return &appsv1.Deployment{} },
		"apps/v1/StatefulSet":                             func() any { return &appsv1.StatefulSet{} },
		"autoscaling/v2/HorizontalPodAutoscaler":          func() any { return &autoscalingv2.HorizontalPodAutoscaler{} },
		"policy/v1/PodDisruptionBudget":                   func() any { return &policyv1.PodDisruptionBudget{} },
		"networking.k8s.io/v1/NetworkPolicy":              func() any { return &networkingv1.NetworkPolicy{} },
		"rbac.authorization.k8s.io/v1/Role":               func() any { return &rbacv1.Role{} },
		"rbac.authorization.k8s.io/v1/RoleBinding":        func() any { return &rbacv1.RoleBinding{} },
		"rbac.authorization.k8s.io/v1/ClusterRole":        func() any { return &rbacv1.ClusterRole{} },
		"rbac.authorization.k8s.io/v1/ClusterRoleBinding": func() any { return &rbacv1.ClusterRoleBinding{} },
		"monitoring.coreos.com/v1/ServiceMonitor":         func() any { return &monitoringv1.ServiceMonitor{} },
		"keda.sh/v1alpha1/ScaledObject":                   func() any { return &scaledObject{} },
	}
}

// scaledObject is KEDA's, as far as the chart uses it; KEDA's own module would bring hundreds.
type scaledObject struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       struct {
		ScaleTargetRef struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
		} `json:"scaleTargetRef"`
		MinReplicaCount *int32 `json:"minReplicaCount"`
		MaxReplicaCount *int32 `json:"maxReplicaCount"`
		PollingInterval *int32 `json:"pollingInterval"`
		CooldownPeriod  *int32 `json:"cooldownPeriod"`
		Advanced        *struct {
			HorizontalPodAutoscalerConfig *struct {
				Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
		} `json:"advanced"`
		Triggers []struct {
			Type       string            `json:"type"`
			MetricType string            `json:"metricType"`
			Metadata   map[string]string `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

// parse decodes the documents of a file strictly: a field that its type does not have is an error.
func parse(t reporter, file, text string) []object {
	t.Helper()
	var out []object
	for doc := range strings.SplitSeq("\n"+text, "\n---") {
		var head struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Metadata   struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
			t.Fatalf("%s: %v\n%s", file, err, doc)
		}
		if head.Kind == "" {
			continue // comments alone
		}
		newOf := kinds()[head.APIVersion+"/"+head.Kind]
		if newOf == nil {
			t.Errorf("%s: nothing checks a %s of %s", file, head.Kind, head.APIVersion)
			continue
		}
		o := object{kind: head.Kind, name: head.Metadata.Name, text: doc, typed: newOf()}
		if err := yaml.UnmarshalStrict([]byte(doc), o.typed); err != nil {
			t.Errorf("%s: %s/%s: %v\n%s", file, o.kind, o.name, err, doc)
		}
		out = append(out, o)
	}
	return out
}

// config is a ConfigMap's data.
func (o *object) config() map[string]string { return o.typed.(*corev1.ConfigMap).Data }

// pods is the template of the object's pods; nil: it has none.
func (o *object) pods() *corev1.PodTemplateSpec {
	switch w := o.typed.(type) {
	case *appsv1.Deployment:
		return &w.Spec.Template
	case *appsv1.StatefulSet:
		return &w.Spec.Template
	}
	return nil
}

func (o *object) String() string { return fmt.Sprintf("%s/%s", o.kind, o.name) }
