package deploy

import (
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// listens are a frontend's addresses, as its configuration file has them.
type listens struct {
	Metrics  string `json:"metrics"`
	Frontend struct {
		HTTP   string `json:"http"`
		GRPC   string `json:"grpc"`
		Admin  string `json:"admin"`
		Listen string `json:"listen"`
	} `json:"frontend"`
}

// checkListens: gRPC has port 8001 wherever HTTP is served, and nothing else of the frontend has it.
func checkListens(t *testing.T, where, text string) {
	t.Helper()
	var c listens
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	f := c.Frontend
	if f.HTTP != "0.0.0.0:8000" || f.GRPC != "0.0.0.0:8001" {
		t.Errorf("%s: HTTP is at %q, gRPC at %q", where, f.HTTP, f.GRPC)
	}
	var ports []string
	for _, address := range []string{f.HTTP, f.GRPC, f.Admin, strings.TrimPrefix(f.Listen, "tcp:"), c.Metrics} {
		if address == "" {
			continue
		}
		_, port, err := net.SplitHostPort(address)
		if err != nil || slices.Contains(ports, port) {
			t.Errorf("%s: %q is no address, or its port is another one's: %v", where, address, err)
		}
		ports = append(ports, port)
	}
}

// checkFrontend: what the process listens on is what its container, Service and NetworkPolicy lead to.
func checkFrontend(t *testing.T, where string, all []object) {
	t.Helper()
	found := 0
	for _, o := range all {
		if o.kind == "ConfigMap" {
			if text, ok := o.config()["frontend.yaml"]; ok {
				found++
				checkListens(t, where, text)
			}
		}
		if o.name != "symphony-frontend" {
			continue
		}
		switch w := o.typed.(type) {
		case *corev1.Service:
			found++
			if !slices.ContainsFunc(w.Spec.Ports, func(p corev1.ServicePort) bool {
				return p.Name == "grpc" && p.Port == 8001 && p.TargetPort.StrVal == "grpc"
			}) {
				t.Errorf("%s: the Service has no port for gRPC: %v", where, w.Spec.Ports)
			}
		case *networkingv1.NetworkPolicy:
			for _, in := range w.Spec.Ingress {
				has := func(name string) bool {
					return slices.ContainsFunc(in.Ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port.StrVal == name })
				}
				if has("http") != has("grpc") {
					t.Errorf("%s: the NetworkPolicy lets in HTTP or gRPC, not both: %v", where, in.Ports)
				}
			}
		}
		if p := o.pods(); p != nil {
			found++
			if !slices.ContainsFunc(p.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == "grpc" && p.ContainerPort == 8001 }) {
				t.Errorf("%s: the container has no port 8001", where)
			}
		}
	}
	if found != 3 {
		t.Errorf("%s: %d of configuration, Service and Deployment", where, found)
	}
}

// Frontends are reached over gRPC as over HTTP, however they are deployed.
func TestFrontendsServeGRPC(t *testing.T) {
	for name, values := range sets(t) {
		files, err := render(t, values)
		if err != nil {
			t.Fatal(err)
		}
		checkFrontend(t, name, objects(t, files))
	}
	checkFrontend(t, baseDir, build(t, baseDir))
	text, err := os.ReadFile("systemd/etc/frontend.yaml")
	if err != nil {
		t.Fatal(err)
	}
	checkListens(t, "systemd", string(text))

	var compose struct {
		Services map[string]struct {
			Environment map[string]string `json:"environment"`
			Ports       []string          `json:"ports"`
		} `json:"services"`
	}
	if text, err = os.ReadFile("docker-compose.yml"); err == nil {
		err = yaml.Unmarshal(text, &compose)
	}
	if err != nil {
		t.Fatal(err)
	}
	f := compose.Services["frontend"]
	for i, key := range []string{"SYMPHONY_FRONTEND__HTTP", "SYMPHONY_FRONTEND__GRPC"} {
		port := strconv.Itoa(8000 + i)
		if f.Environment[key] != "0.0.0.0:"+port || !slices.Contains(f.Ports, "127.0.0.1:"+port+":"+port) {
			t.Errorf("docker-compose: %s is %q, the ports are %q", key, f.Environment[key], f.Ports)
		}
	}
}
