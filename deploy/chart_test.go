package deploy

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write what is compared with")

const chartDir = "helm/symphony"

// sets are the values that the chart is rendered with: none, and each file of ci/.
func sets(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{"default": ""}
	files, err := filepath.Glob(filepath.Join(chartDir, "ci", "*.yaml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("the chart has %d sets of values, %v", len(files), err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(f), ".yaml")] = string(text)
	}
	return out
}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render is the chart with values, as `helm template symphony --namespace symphony` has it: the files
// by name. Values that the schema refuses are an error.
func render(t *testing.T, values string) (map[string]string, error) {
	t.Helper()
	return renderIn(t, "symphony", values)
}

func renderIn(t *testing.T, namespace, values string) (map[string]string, error) {
	t.Helper()
	v := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(values), &v); err != nil {
		t.Fatalf("the values: %v\n%s", err, values)
	}
	c := load(t)
	in, err := chartutil.ToRenderValues(c, v, chartutil.ReleaseOptions{Name: "symphony", Namespace: namespace, Revision: 1, IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, in)
}

// objects are those of the rendered files, in the order of names; NOTES.txt is none.
func objects(t reporter, files map[string]string) []object {
	t.Helper()
	var out []object
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".yaml") {
			out = append(out, parse(t, name, files[name])...)
		}
	}
	return out
}

// The chart gives a cluster what it takes, with each set of values, and keeps the rules.
func TestChart(t *testing.T) {
	for name, values := range sets(t) {
		t.Run(name, func(t *testing.T) {
			files, err := render(t, values)
			if err != nil {
				t.Fatal(err)
			}
			all := objects(t, files)
			checkRules(t, all)
			for _, f := range slices.Sorted(maps.Keys(files)) {
				if strings.HasSuffix(f, "NOTES.txt") && !strings.Contains(files[f], "kubectl") {
					t.Errorf("the notes say nothing:\n%s", files[f])
				}
			}
			keepConfig(t, name, all)
		})
	}
}

// What the value sets are for is there.
func TestChartHasWhatIsAskedFor(t *testing.T) {
	all := sets(t)
	for _, c := range []struct{ set, want string }{
		{"default", "StatefulSet/symphony-scheduler StatefulSet/symphony-controller StatefulSet/symphony-backend-cpu Deployment/symphony-frontend HorizontalPodAutoscaler/symphony-frontend PodDisruptionBudget/symphony-backend-cpu NetworkPolicy/symphony-frontend"},
		{"gpus-kube", "StatefulSet/symphony-backend-h100 StatefulSet/symphony-backend-t4 Deployment/symphony-kube Role/symphony-kube ClusterRole/symphony-symphony-kube ServiceMonitor/symphony"},
		{"rdma-keda", "ScaledObject/symphony-backend-cpu"},
	} {
		files, err := render(t, all[c.set])
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, o := range objects(t, files) {
			names = append(names, o.kind+"/"+o.name)
		}
		for want := range strings.FieldsSeq(c.want) {
			if !slices.Contains(names, want) {
				t.Errorf("with the values %s there is no %s, only %v", c.set, want, names)
			}
		}
	}
	files, err := render(t, all["one-scheduler"])
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects(t, files) {
		if slices.Contains([]string{"HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy"}, o.kind) || strings.Contains(o.name, "controller") {
			t.Errorf("%s/%s is there although it was left out", o.kind, o.name)
		}
	}
}

// Helm's own linter finds nothing, not even what it would only advise.
func TestChartLint(t *testing.T) {
	for name, values := range sets(t) {
		v := map[string]any{}
		if err := yaml.Unmarshal([]byte(values), &v); err != nil {
			t.Fatal(err)
		}
		for _, m := range lint.AllWithKubeVersion(chartDir, v, "symphony", nil).Messages {
			if m.Severity > support.InfoSev || !strings.Contains(m.Err.Error(), "icon is recommended") {
				t.Errorf("%s: %s", name, m)
			}
		}
	}
}

// Values that make no sense are refused, with the place; each of these would be found out later only,
// or never.
func TestValuesAreChecked(t *testing.T) {
	for values, want := range map[string]string{
		"scheduler: {replicas: 0}":                                       "scheduler",
		"schedulers: {replicas: 1}":                                      "schedulers",
		"images: {cpu: {repository: x, tag: latest}}":                    "images",
		"images: {cpu: {repository: x, digest: abc}}":                    "images",
		"scaling: {by: luck}":                                            "scaling",
		"drainSeconds: \"30s\"":                                          "drainSeconds",
		"hugepages2Mi: 1GiB":                                             "hugepages2Mi",
		"controller: {replicas: 2}":                                      "controller.etcd.endpoints",
		"controller: {etcd: {user: u}}":                                  "controller",
		"controller: {etcd: {endpoints: [\"etcd:2379\"]}}":               "endpoints",
		"backends: [{name: x}]":                                          "backends",
		"backends: [{name: X_1, image: cpu}]":                            "backends",
		"frontend: {autoscaling: {cpuPercent: 0}}":                       "autoscaling",
		"networkPolicy: {requestsFrom: everybody}":                       "requestsFrom",
		"token: {value: hush}":                                           "token",
		"scaling: {by: kube}\nbackends: [" + unnamed + "]":               "device_type",
		"monitoring: {serviceMonitor: {enabled: true, interval: often}}": "interval",
	} {
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %s", values, err, want)
		}
	}
}

// unnamed is a pool of GPUs whose type is whatever the driver calls it: nobody could give advice for it.
const unnamed = `{name: g, image: cuda, replicas: 1, pool: {kind: cuda}, gpus: 1, gpuResource: nvidia.com/gpu, config: {}, repository: {}, cacheSize: 1Gi, startMinutes: 1, scaling: {min: 1, max: 2}, resources: {}}`

// pool is a backend of one device a pod.
func pool(name, deviceType string, most int) string {
	return fmt.Sprintf(`{name: %s, image: cpu, replicas: 1, pool: {device_type: %s, kind: cpu, devices: 1}, gpus: 0, gpuResource: nvidia.com/gpu, config: {}, repository: {}, cacheSize: 1Gi, startMinutes: 1, scaling: {min: 1, max: %d}, resources: {}}`,
		name, deviceType, most)
}

// KEDA asks for what a device type needs in all: of two backends with one type each would get it.
func TestKEDAScalesOneBackendOfAType(t *testing.T) {
	two := func(by, other string) error {
		_, err := render(t, "scaling: {by: "+by+"}\nbackends: ["+pool("a", "t4", 4)+", "+pool("b", other, 4)+"]")
		return err
	}
	if err := two("keda", "t4"); err == nil || !strings.Contains(err.Error(), "backends: b: a has the device type t4, too") {
		t.Errorf("%v", err)
	}
	for _, c := range []struct{ by, other string }{{"keda", "h100"}, {"kube", "t4"}, {"none", "t4"}} {
		if err := two(c.by, c.other); err != nil {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// An HPA does nothing about a tenth or less: 9 of 10 are not carried out (0.9 is within), 8 of 9 are.
func TestKEDAWithinTheTolerance(t *testing.T) {
	for _, c := range []struct {
		keda string
		most int
		want string // an error; "": none
	}{{"{exact: false}", 9, ""}, {"{exact: false}", 10, "scaling.max is 10"}, {"{exact: true}", 40, ""}} {
		files, err := render(t, "scaling: {by: keda, keda: "+c.keda+"}\nbackends: ["+pool("a", "t4", c.most)+"]")
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		for _, o := range objects(t, files) {
			if w, is := o.typed.(*scaledObject); is {
				b := w.Spec.Advanced.HorizontalPodAutoscalerConfig.Behavior
				zero := b.ScaleUp != nil && b.ScaleUp.Tolerance != nil && b.ScaleUp.Tolerance.IsZero() && b.ScaleDown.Tolerance != nil && b.ScaleDown.Tolerance.IsZero()
				if exact := c.keda == "{exact: true}"; zero != exact {
					t.Errorf("%+v: %+v", c, b)
				}
			}
		}
	}
}

// keepConfig compares the configuration files with those in testdata, which package config reads.
func keepConfig(t *testing.T, set string, all []object) {
	t.Helper()
	dir := filepath.Join("testdata", set)
	found := map[string]string{}
	for _, o := range all {
		if o.kind == "ConfigMap" {
			maps.Copy(found, o.config())
		}
	}
	if len(found) < 3 {
		t.Errorf("%d configuration files", len(found))
	}
	if *update {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range found {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	compareFolder(t, dir, found)
}

// compareFolder says where a folder's files are others.
func compareFolder(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatalf("%v; go test -update writes it", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != want[e.Name()] {
			t.Errorf("%s/%s is not what the chart makes: go test -update writes it anew\n%s", dir, e.Name(), firstDifference(string(text), want[e.Name()]))
		}
	}
	if all := slices.Sorted(maps.Keys(want)); !slices.Equal(all, names) {
		t.Errorf("%s has %v, and the chart makes %v: go test -update writes it anew", dir, names, all)
	}
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d: %q, now %q", i+1, x[i], y[i])
		}
	}
	return fmt.Sprintf("%d lines, now %d", len(x), len(y))
}
