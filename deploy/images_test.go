package deploy

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// instructions are a Dockerfile's, a line each.
func instructions(t *testing.T, path string) [][]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]string
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		if f := strings.Fields(line); len(f) > 0 && !strings.HasPrefix(f[0], "#") {
			out = append(out, f)
		}
	}
	return out
}

// Images are made in stages from bases that are named by their digest, run as nobody in particular, and
// have nothing in them that their last stage did not take.
func TestDockerfiles(t *testing.T) {
	files, err := filepath.Glob("images/Dockerfile*")
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, path := range files {
		stages, user, entry := []string{}, "", ""
		for _, f := range instructions(t, path) {
			switch f[0] {
			case "FROM":
				if f[1] != "scratch" && !regexp.MustCompile(`^[a-z/.-]+:[a-z0-9.-]+@sha256:[0-9a-f]{64}$`).MatchString(f[1]) {
					t.Errorf("%s: the base %s is not named by its digest", path, f[1])
				}
				name := ""
				if len(f) == 4 && f[2] == "AS" {
					name = f[3]
				}
				stages, user, entry = append(stages, name), "", ""
			case "USER":
				user = f[1]
			case "ENTRYPOINT":
				entry = strings.Join(f[1:], " ")
			case "COPY":
				from := ""
				for _, o := range f[1:] {
					if s, ok := strings.CutPrefix(o, "--from="); ok {
						from = s
					}
				}
				switch {
				case from != "" && !slices.Contains(stages[:len(stages)-1], from):
					t.Errorf("%s: it copies from %q, which is no stage before", path, from)
				case from == "" && len(stages) > 1:
					t.Errorf("%s: the last stage copies %v from the tree", path, f)
				case from == "":
					for _, source := range f[1 : len(f)-1] {
						if _, err := os.Stat(filepath.Join("..", source)); err != nil {
							t.Errorf("%s: %v", path, err)
						}
					}
				}
			case "ADD":
				t.Errorf("%s: ADD fetches and unpacks without being asked: use COPY", path)
			case "RUN", "WORKDIR", "ARG", "ENV", "LABEL":
			default:
				t.Errorf("%s: %s is not known here", path, f[0])
			}
		}
		if len(stages) < 2 || stages[len(stages)-1] != "" {
			t.Errorf("%s has the stages %q", path, stages)
		}
		if user != "65532:65532" || !strings.HasPrefix(entry, "[\"/usr/local/bin/symphony") {
			t.Errorf("%s runs %s as %q", path, entry, user)
		}
	}
}

// Compose's services keep the rules of pods, as far as there are any, and mount what is there.
func TestCompose(t *testing.T) {
	text, err := os.ReadFile("docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Name     string         `json:"name"`
		Part     any            `json:"x-part"`
		Common   any            `json:"x-common"`
		Networks map[string]any `json:"networks"`
		Volumes  map[string]any `json:"volumes"`
		Services map[string]struct {
			Image       string            `json:"image"`
			Build       map[string]string `json:"build"`
			User        string            `json:"user"`
			ReadOnly    bool              `json:"read_only"`
			CapDrop     []string          `json:"cap_drop"`
			SecurityOpt []string          `json:"security_opt"`
			Restart     string            `json:"restart"`
			Init        bool              `json:"init"`
			Grace       string            `json:"stop_grace_period"`
			Tmpfs       []string          `json:"tmpfs"`
			Networks    []string          `json:"networks"`
			Health      map[string]any    `json:"healthcheck"`
			Command     []string          `json:"command"`
			Environment map[string]string `json:"environment"`
			Volumes     []string          `json:"volumes"`
			Ports       []string          `json:"ports"`
		} `json:"services"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(withoutMerges(t, text), &file); err != nil {
		t.Fatal(err)
	}
	for name, s := range file.Services {
		switch {
		case !byValue.MatchString(s.Image):
			t.Errorf("%s: image %s is not named by value", name, s.Image)
		case s.User != "65532:65532" || !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || len(s.SecurityOpt) != 1:
			t.Errorf("%s may do more than it needs: %+v", name, s)
		case len(s.Health) == 0 || len(s.Command) == 0 || s.Environment["SYMPHONY_TOKEN"] == "":
			t.Errorf("%s has no health check, command or token: %+v", name, s)
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: port %s is open to others", name, p)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(from, ".") {
				if _, err := os.Stat(from); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			} else if _, there := file.Volumes[from]; !there {
				t.Errorf("%s mounts the volume %s, which is not there", name, from)
			}
		}
	}
	if len(file.Services) < 6 {
		t.Errorf("%d services", len(file.Services))
	}
}

// withoutMerges has YAML's merge keys carried out: what is strict about JSON knows none.
func withoutMerges(t *testing.T, text []byte) []byte {
	t.Helper()
	out, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Units give processes just the capabilities they need, and systemd finds nothing wrong with them.
func TestUnits(t *testing.T) {
	units, err := filepath.Glob("systemd/*.service")
	if err != nil || len(units) != 4 {
		t.Fatalf("%v, %v", units, err)
	}
	for _, path := range units {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"DynamicUser=yes", "NoNewPrivileges=yes", "ProtectSystem=strict", "Restart=always", "TimeoutStopSec=60s", "EnvironmentFile=/etc/symphony/token.env"} {
			if !bytes.Contains(text, []byte("\n"+want+"\n")) {
				t.Errorf("%s has no %s", path, want)
			}
		}
		var bounding, ambient string
		for line := range strings.Lines(string(text)) {
			if v, ok := strings.CutPrefix(line, "CapabilityBoundingSet="); ok {
				bounding = strings.TrimSpace(v)
			}
			if v, ok := strings.CutPrefix(line, "AmbientCapabilities="); ok {
				ambient = strings.TrimSpace(v)
			}
		}
		want := "CAP_SYS_NICE CAP_BPF CAP_PERFMON"
		if strings.Contains(path, "controller") {
			want = ""
		}
		if !bytes.Contains(text, []byte("CapabilityBoundingSet=")) || bounding != want || ambient != want {
			t.Errorf("%s: capabilities %q, %q, want %q", path, bounding, ambient, want)
		}
		for _, config := range regexp.MustCompile(`--config /etc/symphony/(\S+)`).FindAllStringSubmatch(string(text), -1) {
			file := strings.ReplaceAll(config[1], "%i", "gpus")
			if _, err := os.Stat(filepath.Join("systemd/etc", file)); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("without systemd-analyze: units are looked at, and not by systemd itself")
	}
	// The binary that they start is not here: of this machine, /bin/true is taken for it.
	dir := t.TempDir()
	for _, path := range units {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(copied, bytes.ReplaceAll(text, []byte("/usr/local/bin/symphony"), []byte("/bin/true")), 0o644); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(copied, "@") {
			copied = strings.Replace(copied, "@", "@gpus", 1)
			if err := os.Symlink(filepath.Base(path), copied); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.Command(analyze, "verify", "--man=no", copied).CombinedOutput()
		if err != nil || bytes.Contains(out, []byte(filepath.Base(copied))) {
			t.Errorf("%s: %v\n%s", path, err, out)
		}
	}
}

// The images' files go with what the chart and the units name.
func TestImagesHaveWhatIsRun(t *testing.T) {
	for path, want := range map[string][]string{
		"images/Dockerfile":      {"/usr/local/bin/", "symphony-rdma", "/var/cache/symphony", "/var/lib/symphony", "cap_ipc_lock=ep"},
		"images/Dockerfile.cuda": {"/usr/local/bin/", "symphony-rdma", "/var/cache/symphony", "cap_ipc_lock=ep", "build/gpu/lib"},
		"images/Dockerfile.kube": {"/usr/local/bin/symphony-kube"},
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !bytes.Contains(text, []byte(w)) {
				t.Errorf("%s has no %s", path, w)
			}
		}
	}
}
