package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/backend/onnx"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/bench/cold"
	"github.com/symphony-serving/symphony/cgo/onnxrt"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/parts"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/scheduler/server"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// realPage is the size of a page of a real run: what copies take is rounded little.
const realPage = 1 << 20

// spareRoom is what a session may take beyond its model's file.
const spareRoom = 1.05

// runReal measures real sessions.
func (c coldCmd) runReal() error {
	m, err := c.realModel()
	if err != nil {
		return err
	}
	ctx, cancel := cli.UntilSignal(cli.Logger(config.Log{Level: "error"}))
	defer cancel()
	fmt.Fprintf(os.Stderr, "making %d sessions of %s, one after the other\n", c.Models, m.Spec.Name)
	cfg := c.realConfig(m)
	s, end, err := c.startReal(ctx, m, &cfg)
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted before anything was measured")
	case err != nil:
		return err
	}
	var tell func(string)
	if !c.Quiet {
		tell = func(what string) { fmt.Fprintln(os.Stderr, what) }
	}
	r, err := cold.RunReal(ctx, cfg, s, tell)
	if err = errors.Join(err, end()); err != nil {
		return err
	}
	rep := &coldRealReport{provenance: newProvenance(), RealResult: r}
	return showReport(os.Stdout, c.JSON, rep, rep.print, r.Failed())
}

// realModel is the model of which there are copies, and says what is missing.
func (c coldCmd) realModel() (*repository.Model, error) {
	library := parts.ONNXLibrary(c.ONNX)
	if _, err := os.Stat(library); err != nil {
		return nil, fmt.Errorf("--real needs ONNX Runtime, and there is none at %s: run `make models`, or say --onnxruntime FILE", library)
	}
	models, failed, err := repository.Load(c.Repository)
	if err != nil {
		return nil, fmt.Errorf("--repository: %w", err)
	}
	i := slices.IndexFunc(models, func(m repository.Model) bool {
		return m.Spec.Name == c.Model && m.Spec.Platform == repository.PlatformONNX
	})
	if i < 0 {
		return nil, errors.Join(append(failed, fmt.Errorf("%s has no ONNX model %s: run `make models` in Symphony's folder, or say --repository and --model", c.Repository, c.Model))...)
	}
	return &models[i], nil
}

// realConfig is the configuration of the run.
func (c coldCmd) realConfig(m *repository.Model) cold.RealConfig {
	size := int64(0)
	if file, err := os.Stat(m.Path); err == nil {
		size = file.Size()
	}
	pages := (int64(float64(size)*spareRoom) + realPage - 1) / realPage
	return cold.RealConfig{Copies: c.Models, Room: c.Room, Counted: mono.FromSeconds(c.Seconds), Rounds: c.Rounds, SLO: mono.Dur(c.SLO), Page: realPage, Pages: c.Room * int(pages),
		Seed: c.Seed, Sending: c.sending()}
}

// copies makes a repository of copies below dir. They share the file on the disk, and what was measured of it; each is read
// into memory of its own.
func copies(m *repository.Model, n int, slo time.Duration, dir string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(m.Dir, "config.yaml"))
	if err != nil {
		return nil, err
	}
	file, err := filepath.Abs(m.Path)
	if err != nil {
		return nil, err
	}
	shared := filepath.Join(dir, ".profiles") // no model, by its name
	if err := os.Mkdir(shared, 0o755); err != nil {
		return nil, err
	}
	var names []string
	for i := range n {
		name := fmt.Sprintf("%s-%d", m.Spec.Name, i)
		folder := filepath.Join(dir, name)
		err := errors.Join(os.MkdirAll(filepath.Join(folder, m.Spec.Version), 0o755), os.WriteFile(filepath.Join(folder, "config.yaml"), withSLO(string(text), slo), 0o644))
		if err == nil {
			err = os.Symlink(shared, filepath.Join(folder, "profiles"))
		}
		if err == nil {
			err = linkOrCopy(file, filepath.Join(folder, m.Spec.Version, filepath.Base(file)))
		}
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// withSLO is a model's configuration with another SLO.
func withSLO(text string, slo time.Duration) []byte {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if key, _, _ := strings.Cut(line, ":"); key != "slo" {
			out.WriteString(line)
		}
	}
	fmt.Fprintf(&out, "\nslo: %s\n", slo)
	return []byte(out.String())
}

// startReal serves the copies until end is called; none has a session then.
func (c coldCmd) startReal(ctx context.Context, m *repository.Model, run *cold.RealConfig) (_ *cold.RealSystem, end func() error, err error) {
	dir, err := os.MkdirTemp("", "symphony-cold-")
	if err != nil {
		return nil, nil, err
	}
	var running *parts.System
	end = func() (err error) {
		if running != nil {
			err = running.Drain()
		}
		return errors.Join(err, os.RemoveAll(dir)) // the backend looks there again and again
	}
	names, err := copies(m, c.Models, c.SLO, dir)
	w := &cold.LoadsWatcher{}
	if err == nil {
		running, err = c.serveCopies(ctx, m, dir, run.Pages, w)
	}
	if err == nil {
		err = waitCopies(ctx, running.Client, names)
	}
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	onnxrt.Trim() // what copies took to be weighed is no part of an idle process
	return &cold.RealSystem{Client: running.Client, Models: names, Resident: onnx.Resident, Loads: w}, end, nil
}

// readyMost is how long after the start of all parts the last copy may be ready.
const readyMost = 30 * time.Second

// waitCopies names the copies that are not served: their sessions fail, or were measured to take more than there is.
func waitCopies(ctx context.Context, client *frontend.Client, names []string) error {
	wait, cancel := context.WithTimeout(ctx, readyMost)
	defer cancel()
	err := client.WaitReady(wait, names...)
	if err == nil || wait.Err() == nil || ctx.Err() != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		e, err := client.Model(name, "")
		return err == nil && e.Ready
	})
	return fmt.Errorf("after %v %s are not served (the lines above say why); try again, or with another --room", readyMost, strings.Join(missing, ", "))
}

// serveCopies starts a system whose one device has so many pages.
func (c coldCmd) serveCopies(ctx context.Context, m *repository.Model, dir string, pages int, w *cold.LoadsWatcher) (*parts.System, error) {
	cfg := quietSystem(c.Links)
	cfg.Backend.Repository, cfg.Backend.ONNXRuntime = dir, c.ONNX
	cfg.Backend.Pools = []config.Pool{{DeviceType: m.DeviceType, Kind: "cpu", Devices: 1, Paged: &config.Paged{Page: realPage, Pages: pages}}}
	p, err := parts.New(cfg)
	if err != nil {
		return nil, err
	}
	p.Watch = server.Watch{Loaded: func(d *wire.Loaded, _ mono.Dur) { w.Loaded(d) }}
	return p.ServeLibrary(ctx)
}

// coldRealReport is a RealResult and all that must stand beside it.
type coldRealReport struct {
	provenance
	*cold.RealResult
}

func (r *coldRealReport) print(to io.Writer) {
	r.provenance.print(to, "all parts in one process")
	r.Print(to)
}
