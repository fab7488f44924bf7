package deploy

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const baseDir = "kustomize/base"

// build is `kubectl kustomize DIR`.
func build(t *testing.T, dir string) []object {
	t.Helper()
	m, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	text, err := m.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, dir, string(text))
}

// Each folder gives a cluster what it takes, and keeps the rules.
func TestKustomize(t *testing.T) {
	overlays, err := filepath.Glob("kustomize/overlays/*")
	if err != nil || len(overlays) < 2 {
		t.Fatalf("%v, %v", overlays, err)
	}
	for _, dir := range append(overlays, baseDir) {
		all := build(t, dir)
		if len(all) < 15 {
			t.Errorf("%s has %d objects", dir, len(all))
		}
		checkRules(t, all)
	}
}

// The overlay for RDMA gives a device, and the capability that goes with it, to those that have links
// for inputs and orders, and to no other.
func TestRDMAOverlay(t *testing.T) {
	n := 0
	for _, o := range build(t, "kustomize/overlays/rdma") {
		p := o.pods()
		if p == nil {
			continue
		}
		c := p.Spec.Containers[0]
		device := c.Resources.Limits["rdma/hca_shared_devices_a"]
		mode := slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "SYMPHONY_RDMA__MODE" && e.Value == "auto" })
		if has := !device.IsZero(); has != (len(c.SecurityContext.Capabilities.Add) == 1) || has != mode || has == strings.Contains(o.name, "controller") {
			t.Errorf("%s has a device: %v, capabilities %v, mode %v", &o, has, c.SecurityContext.Capabilities.Add, mode)
		}
		n++
	}
	if n != 4 {
		t.Errorf("%d objects with pods, want scheduler, controller, frontend and backend", n)
	}
}

// managed are the labels that only Helm gives.
var managed = regexp.MustCompile(`(?m)^ +(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n|^ +checksum/config: .*\n|^ +annotations:\n +checksum/config: .*\n`)

// The base is the chart as it is rendered without values: the objects a file each, and the configuration
// files, which Kustomize makes a ConfigMap of.
func TestBase(t *testing.T) {
	files, err := render(t, "")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	var resources, configs []string
	for _, path := range slices.Sorted(maps.Keys(files)) {
		name := filepath.Base(path)
		if filepath.Ext(name) != ".yaml" || strings.TrimSpace(files[path]) == "" {
			continue
		}
		if name == "config.yaml" {
			for _, o := range parse(t, path, files[path]) {
				for file, text := range o.config() {
					want["config-"+file] = text
					configs = append(configs, fmt.Sprintf("%s=config-%s", file, file))
				}
			}
			continue
		}
		want[name] = strings.TrimLeft(managed.ReplaceAllString(files[path], ""), "-\n") // leading empty documents
		resources = append(resources, name)
	}
	slices.Sort(configs)
	want["kustomization.yaml"] = "# The chart as it is rendered without values: made by `go test -run TestBase -update` in deploy/,\n" +
		"# so change the chart, or write an overlay.\n" +
		"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n  - " + strings.Join(resources, "\n  - ") +
		"\nconfigMapGenerator:\n  - name: symphony-config\n    files:\n      - " + strings.Join(configs, "\n      - ") + "\n"
	if *update {
		if err := os.RemoveAll(baseDir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(baseDir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range want {
			if err := os.WriteFile(filepath.Join(baseDir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	compareFolder(t, baseDir, want)
}
