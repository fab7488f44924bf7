package peers

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

//go:embed triton ray bentoml
var files embed.FS

// system is something that serves.
type system interface {
	name() string
	// version is known once it is installed.
	version() string
	// install makes it ready to be started, or says why it cannot be.
	install(context.Context) error
	// stages are the sweep's: each continues from the best of those before. None:
	// the system is measured as it comes.
	stages(Case) []stage
	// start starts it on a free port of loopback; folder is its own, and empty.
	start(c Case, s Setting, folder string) (*server, error)
}

// stage is the settings to try next, from the best so far.
type stage func(best Setting) []Setting

// server is a started system.
type server struct {
	url  string
	proc *process
}

// freePort is a port of loopback that nobody listens on now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func urlOf(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }

// setupModel and setup are what the Python files read.
type setupModel struct {
	Name    string  `json:"name"`
	Alpha   float64 `json:"alpha_ms"`
	Beta    float64 `json:"beta_ms"`
	Batch   int     `json:"batch_max"`
	Delay   float64 `json:"delay_ms"`
	Latency int     `json:"latency_ms"`
}

type setup struct {
	Models  []setupModel `json:"models"`
	Timeout float64      `json:"timeout_ms"` // of the whole server: the longest SLO's
	Port    int          `json:"port"`
	Folder  string       `json:"folder"`
}

// writeSetup writes the file and returns its path.
func writeSetup(c Case, s Setting, port int, folder string) (string, error) {
	out := setup{Port: port, Folder: folder}
	for _, m := range c.Models {
		out.Models = append(out.Models, setupModel{m.Name, m.Alpha, m.Beta, m.Largest(s.Longest), s.Delay * m.SLO, max(1, int(s.Timeout*m.SLO))})
		out.Timeout = max(out.Timeout, s.Timeout*m.SLO)
	}
	text, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "setup.json")
	return path, os.WriteFile(path, text, 0o644)
}

// unpack writes one of the embedded files into a folder.
func unpack(name, folder string) error {
	text, err := files.ReadFile(name)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, filepath.Base(name)), text, 0o644)
}

// Bounds on what may take long.
const (
	installMax = 15 * time.Minute
	startMax   = 90 * time.Second
	recoverMax = 20 * time.Second // from an overload
)
