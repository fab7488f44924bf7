package deploy

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// byValue is an image that is the same tomorrow: a digest, or an exact version.
var byValue = regexp.MustCompile(`^[a-z0-9.:/_-]+(@sha256:[0-9a-f]{64}|:v?[0-9]+\.[0-9]+\.[0-9]+[A-Za-z0-9._-]*)$`)

// checkRules holds the rules of this package's comment over objects that belong together.
func checkRules(t reporter, all []object) {
	t.Helper()
	seen := map[string]bool{}
	for _, o := range all {
		if seen[o.String()] {
			t.Errorf("%s is there twice", &o)
		}
		seen[o.String()] = true
		if p := o.pods(); p != nil {
			checkPods(t, &o, p, all)
		}
		switch w := o.typed.(type) {
		case *corev1.Service:
			if matched := podsOf(t, all, metav1.SetAsLabelSelector(w.Spec.Selector)); len(matched) != 1 {
				t.Errorf("%s is for the pods of %d objects, not of one", &o, len(matched))
			} else {
				for _, p := range w.Spec.Ports {
					needPort(t, &o, matched[0], p.TargetPort.StrVal)
				}
			}
		case *policyv1.PodDisruptionBudget:
			if n := len(podsOf(t, all, w.Spec.Selector)); n != 1 {
				t.Errorf("%s is for the pods of %d objects, not of one", &o, n)
			}
			if w.Spec.MaxUnavailable == nil || *w.Spec.MaxUnavailable != intstr.FromInt32(1) {
				t.Errorf("%s: maxUnavailable is %v", &o, w.Spec.MaxUnavailable)
			}
		case *networkingv1.NetworkPolicy:
			checkPolicy(t, &o, w, all)
		case *scaledObject:
			if !slices.ContainsFunc(all, func(x object) bool {
				return x.kind == w.Spec.ScaleTargetRef.Kind && x.name == w.Spec.ScaleTargetRef.Name
			}) {
				t.Errorf("%s scales %s/%s, which is not there", &o, w.Spec.ScaleTargetRef.Kind, w.Spec.ScaleTargetRef.Name)
			}
		}
	}
}

// checkPolicy: a policy is for some pods, its named ports are theirs, and all of ours that it lets in are there.
func checkPolicy(t reporter, o *object, p *networkingv1.NetworkPolicy, all []object) {
	t.Helper()
	matched := podsOf(t, all, &p.Spec.PodSelector)
	if len(matched) == 0 {
		t.Errorf("%s is for no pods", o)
	}
	for _, in := range p.Spec.Ingress {
		for _, port := range in.Ports {
			for _, of := range matched {
				needPort(t, o, of, port.Port.StrVal)
			}
		}
		for _, from := range in.From {
			if from.PodSelector != nil && from.NamespaceSelector == nil && len(podsOf(t, all, from.PodSelector)) == 0 {
				t.Errorf("%s lets in %v, which no pods are", o, from.PodSelector)
			}
		}
	}
}

// podsOf are the objects whose pods a selector takes.
func podsOf(t reporter, all []object, s *metav1.LabelSelector) (out []object) {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, o := range all {
		if p := o.pods(); p != nil && selector.Matches(labels.Set(p.Labels)) {
			out = append(out, o)
		}
	}
	return out
}

func needPort(t reporter, who *object, of object, name string) {
	t.Helper()
	for _, c := range of.pods().Spec.Containers {
		if slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == name }) {
			return
		}
	}
	t.Errorf("%s names the port %q, which %s does not have", who, name, &of)
}

// drainMax is what a process may take to end after its drain: the longest SLO of the values, and some.
const drainMax = 30 + 10 + 5

func checkPods(t reporter, o *object, p *corev1.PodTemplateSpec, all []object) {
	t.Helper()
	need := func(ok bool, what string) {
		t.Helper()
		if !ok {
			t.Errorf("%s: %s", o, what)
		}
	}
	var selector *metav1.LabelSelector
	switch w := o.typed.(type) {
	case *appsv1.Deployment:
		selector = w.Spec.Selector
	case *appsv1.StatefulSet:
		selector = w.Spec.Selector
		need(slices.ContainsFunc(all, func(x object) bool { return x.kind == "Service" && x.name == w.Spec.ServiceName }), "serviceName "+w.Spec.ServiceName+" is no Service")
	}
	matched := podsOf(t, all, selector)
	need(len(matched) == 1 && matched[0].String() == o.String(), "its selector takes not just its own pods")
	s := p.Spec
	need(s.EnableServiceLinks != nil && !*s.EnableServiceLinks, "enableServiceLinks is on: SYMPHONY_SCHEDULER_PORT and the like would be read as configuration")
	need(s.TerminationGracePeriodSeconds != nil && *s.TerminationGracePeriodSeconds > drainMax, "terminationGracePeriodSeconds is no longer than drain, lame duck and the longest SLO")
	need(s.SecurityContext != nil && s.SecurityContext.RunAsNonRoot != nil && *s.SecurityContext.RunAsNonRoot && *s.SecurityContext.RunAsUser > 0, "it may run as root")
	need(s.SecurityContext.SeccompProfile != nil && s.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault, "it has no seccomp profile")
	need(len(s.TopologySpreadConstraints) > 0, "it is not spread over nodes")
	need(s.AutomountServiceAccountToken != nil && *s.AutomountServiceAccountToken == (s.ServiceAccountName != ""), "it has a token of the cluster without need, or needs one")
	need(!s.HostNetwork && !s.HostPID && !s.HostIPC, "it uses the host's namespaces")
	for _, c := range append(slices.Clone(s.InitContainers), s.Containers...) {
		need(byValue.MatchString(c.Image) && !strings.Contains(c.Image, "latest"), "image "+c.Image+" is not named by value")
		x := c.SecurityContext
		need(x != nil && x.ReadOnlyRootFilesystem != nil && *x.ReadOnlyRootFilesystem, "its root file system can be written")
		locks := len(x.Capabilities.Add) > 0
		need(slices.Equal(x.Capabilities.Drop, []corev1.Capability{"ALL"}) && (!locks || slices.Equal(x.Capabilities.Add, []corev1.Capability{"IPC_LOCK"})), "it has capabilities beside IPC_LOCK")
		need(x.AllowPrivilegeEscalation != nil && *x.AllowPrivilegeEscalation == locks, "privileges may be gained without need, or may not where the file's capability needs it")
		need(!locks || slices.Equal(c.Command, []string{"/usr/local/bin/symphony-rdma"}), "it may pin memory, and runs the binary that does not")
		need(x.Privileged == nil || !*x.Privileged, "it is privileged")
		need(c.LivenessProbe != nil && c.ReadinessProbe != nil && (c.StartupProbe != nil || c.Name == "kube"), "a probe is missing")
		need(!c.Resources.Requests.Cpu().IsZero() && !c.Resources.Limits.Memory().IsZero(), "it says not what it needs")
		checkMounts(t, o, &s, &c, all)
	}
}

// checkMounts: what is mounted is a volume, and a file of a ConfigMap of ours is in there.
func checkMounts(t reporter, o *object, s *corev1.PodSpec, c *corev1.Container, all []object) {
	t.Helper()
	volumes := map[string]corev1.VolumeSource{}
	for _, v := range s.Volumes {
		volumes[v.Name] = v.VolumeSource
	}
	if w, ok := o.typed.(*appsv1.StatefulSet); ok {
		for _, claim := range w.Spec.VolumeClaimTemplates {
			volumes[claim.Name] = corev1.VolumeSource{}
		}
	}
	for _, m := range c.VolumeMounts {
		if _, there := volumes[m.Name]; !there {
			t.Errorf("%s mounts %s, which is no volume", o, m.Name)
		}
		delete(volumes, m.Name)
		for _, v := range s.Volumes {
			if v.Name == m.Name && v.ConfigMap != nil && !hasFile(all, v.ConfigMap.Name, v.ConfigMap.Items) {
				t.Errorf("%s mounts a file of the ConfigMap %s, which it does not have", o, v.ConfigMap.Name)
			}
		}
	}
	for name := range volumes {
		t.Errorf("%s has a volume %s that it does not mount", o, name)
	}
}

func hasFile(all []object, configMap string, items []corev1.KeyToPath) bool {
	for _, o := range all {
		if o.kind != "ConfigMap" || o.name != configMap {
			continue
		}
		return len(items) > 0 && !slices.ContainsFunc(items, func(i corev1.KeyToPath) bool { return o.config()[i.Key] == "" })
	}
	return false
}

// The rules find what is against them: each change of one field is an error.
func TestRulesFindFaults(t *testing.T) {
	files, err := render(t, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to string }{
		{"symphony:0.1.0", "symphony:latest"},
		{"symphony:0.1.0", "symphony"},
		{"readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false"},
		{"runAsNonRoot: true", "runAsNonRoot: false"},
		{"drop: [ALL]", "drop: []"},
		{"enableServiceLinks: false", "enableServiceLinks: true"},
		{"terminationGracePeriodSeconds: 55", "terminationGracePeriodSeconds: 30"},
		{"targetPort: metrics", "targetPort: metric"},
		{"key: scheduler.yaml", "key: schedule.yaml"},
		{"replicas: 3", "replica: 3"},
		{"automountServiceAccountToken: false", "automountServiceAccountToken: true"},
	} {
		changed := map[string]string{}
		n := 0
		for name, text := range files {
			n += strings.Count(text, c.from)
			changed[name] = strings.ReplaceAll(text, c.from, c.to)
		}
		if n == 0 {
			t.Errorf("%q is nowhere", c.from)
		}
		if !finds(changed) {
			t.Errorf("%q instead of %q is not found", c.to, c.from)
		}
	}
}

// finds runs the rules aside and reports whether they found something.
func finds(files map[string]string) bool {
	r := &recorder{}
	r.run(func() { checkRules(r, objects(r, files)) })
	return r.failed
}

// Documents are decoded strictly: what a type does not have is an error, and so is a key twice.
func TestDecodingIsStrict(t *testing.T) {
	for _, text := range []string{"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {port: []}\n", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nmetadata: {name: b}\n", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"} {
		if !finds(map[string]string{"x.yaml": text}) {
			t.Errorf("no error:\n%s", text)
		}
	}
	var s corev1.Service
	if err := yaml.UnmarshalStrict([]byte("spec: {ports: [{port: x}]}"), &s); err == nil {
		t.Error("a port that is no number")
	}
}
