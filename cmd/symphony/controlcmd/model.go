package controlcmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/api"
)

// Model is `symphony model`.
type Model struct {
	Add      addCmd      `cmd:"" help:"Add a version of a model, or many from a file: it is fetched, loaded, measured and served while the rest goes on."`
	Update   updateCmd   `cmd:"" help:"Change a model's SLO, drop policy or largest batch without loading it again; stop it, or have it served."`
	Remove   removeCmd   `cmd:"" help:"Remove models or versions. What is under way is answered."`
	List     listCmd     `cmd:"" help:"List models and what became of their versions."`
	Digest   digestCmd   `cmd:"" help:"Print the digest of a version's files as --digest takes it, without a control plane."`
	Show     showCmd     `cmd:"" help:"Show a model: settings, shares, versions with progress and failures."`
	Versions versionsCmd `cmd:"" help:"Show which versions are served, or say which: the latest, all, or listed ones."`
	Share    shareCmd    `cmd:"" help:"Split requests that name no version between versions: symphony model share M 1=90 2=10."`
	Rollback rollbackCmd `cmd:"" help:"Return to the shares before the last change."`
}

// settingsFlags are a model's settings; nil: not given.
type settingsFlags struct {
	SLO        *time.Duration `help:"Span from a request's arrival within which it is to be answered; 0: as the model's config.yaml says." placeholder:"SPAN"`
	MaxBatch   *int           `help:"Largest batch; 0: as the model's config.yaml says." placeholder:"N"`
	DropPolicy *string        `help:"What is given up under overload: target, head; empty: as the model's config.yaml says." placeholder:"POLICY"`
	DeviceType *string        `help:"Device types that may serve it, separated by commas; the one with most GPUs if empty." placeholder:"TYPE"`
}

func (f settingsFlags) patch() (api.Patch, error) {
	p := api.Patch{SLO: (*api.Span)(f.SLO), MaxBatch: f.MaxBatch, DropPolicy: f.DropPolicy}
	if f.DeviceType != nil {
		types := []string{}
		if *f.DeviceType != "" {
			types = strings.Split(*f.DeviceType, ",")
		}
		p.DeviceTypes = &types
	}
	return p, flagged(p.Check())
}

// flagged says which flag a field is.
func flagged(err error) error {
	var e *api.Error
	if !errors.As(err, &e) || e.Field == "" {
		return err
	}
	field := strings.TrimPrefix(e.Field, "settings.")
	name, _, _ := strings.Cut(field, "[")
	return fmt.Errorf("--%s%s", strings.TrimSuffix(strings.ReplaceAll(name, "_", "-"), "s"), strings.TrimPrefix(e.Msg, e.Field))
}

type addCmd struct {
	Flags        `embed:""`
	Waiting      `embed:"" set:"awaited=it is served" set:"order=order"`
	Name         string        `arg:"" optional:"" help:"NAME/VERSION. Versions are whole numbers; the one that was added last is the latest."`
	ModelVersion string        `help:"The version, where NAME does not have it." placeholder:"V"`
	Source       string        `help:"URL of the folder with config.yaml and the version's files, as backends reach it: file:///models/m, s3://bucket/m, gs://..., azblob://..." placeholder:"URL"`
	Digest       string        `help:"Of the files (symphony model digest prints it): what differs is refused. Without it the files that are loaded first hold." placeholder:"HEX"`
	Settings     settingsFlags `embed:""`
	From         string        `help:"Add what this file lists: JSON, CSV or YAML with name, version, source, and settings; - is standard input." placeholder:"FILE"`
}

// Run adds.
func (c addCmd) Run() error { return c.run(c.add) }

func (c addCmd) add(s *session) error {
	if c.From != "" {
		return c.addAll(s)
	}
	if c.Name == "" {
		return errors.New("which model? write NAME/VERSION, or give --from FILE")
	}
	name, version, err := whole(c.Name, c.ModelVersion)
	if err != nil {
		return err
	}
	patch, err := c.Settings.patch()
	if err != nil {
		return err
	}
	spec := api.VersionSpec{Source: c.Source, Digest: c.Digest}
	patch.Apply(&spec.Settings)
	if err := spec.Check(); err != nil {
		return flagged(err)
	}
	m, err := s.PutVersion(s.ctx, name, version, spec)
	if err != nil {
		return err
	}
	if c.Wait {
		if err := s.await(c.Waiting, name, version); err != nil {
			return err
		}
		if m, err = s.Model(s.ctx, name); err != nil {
			return err
		}
	}
	return s.print(m, func() {
		v := m.Find(version)
		if v == nil {
			v = &api.Version{}
		}
		fmt.Fprintf(s.out, "%s/%s: %s\n", name, version, words(v))
		if !c.Wait && v.State != api.Serving {
			s.note("symphony model show %s --wait waits for it", name)
		}
	})
}

// await waits for a version, with progress.
func (s *session) await(w Waiting, name, version string) error {
	ctx, cancel := s.timed(w.Timeout)
	defer cancel()
	line := progress{s: s, what: name + "/" + version}
	_, err := s.AwaitServed(ctx, name, version, line.told)
	line.end()
	return s.unfinished(err, w, "the order stands: symphony model show "+name+" tells what becomes of it")
}

// unfinished says it where a wait ended before what it waited for.
func (s *session) unfinished(err error, w Waiting, stands string) error {
	switch {
	case err == nil:
		return nil
	case s.ctx.Err() != nil:
		return fmt.Errorf("interrupted; %s", stands)
	case ctxEnded(err):
		return fmt.Errorf("not within %v; %s", w.Timeout, stands)
	}
	return err
}

type updateCmd struct {
	Flags    `embed:""`
	Name     string        `arg:"" help:"NAME, or NAME/VERSION for one version alone."`
	Source   string        `help:"Of a version that is not served: URL of its files from now on, or the same again where they are other ones; what was learnt of them is forgotten." placeholder:"URL"`
	Digest   string        `help:"With --source, or alone: of the files (symphony model digest prints it)." placeholder:"HEX"`
	Settings settingsFlags `embed:""`
	Load     bool          `help:"Have it served." xor:"desired"`
	Unload   bool          `help:"Stop serving it: its versions stay known, and nothing of it is loaded." xor:"desired"`
}

// Run updates.
func (c updateCmd) Run() error { return c.run(c.update) }

func (c updateCmd) update(s *session) error {
	name, version, err := split(c.Name)
	if err != nil {
		return err
	}
	patch, err := c.Settings.patch()
	switch {
	case err != nil:
		return err
	case patch.Empty() && !c.Load && !c.Unload && c.Source == "" && c.Digest == "":
		return errors.New("nothing to change: give --slo, --max-batch, --drop-policy, --device-type, --load, --unload, --source or --digest (another version is symphony model add)")
	case version == "" && (c.Source != "" || c.Digest != ""):
		return fmt.Errorf("--source and --digest are of one version: write %s/VERSION", name)
	case version != "" && (c.Load || c.Unload):
		return fmt.Errorf("--load and --unload are of the whole model: for one version, symphony model versions %s --listed ...", name)
	}
	var m api.Model
	if c.Source != "" || c.Digest != "" {
		if m, err = c.files(s, name, version); err != nil {
			return err
		}
	}
	if !patch.Empty() {
		if m, err = s.SetSettings(s.ctx, name, version, patch); err != nil {
			return err
		}
	}
	if c.Load {
		m, err = s.Load(s.ctx, name, api.LoadOrder{})
	} else if c.Unload {
		m, err = s.Unload(s.ctx, name)
	}
	if err != nil {
		return err
	}
	return s.print(m, func() { s.showModel(&m, "") })
}

// files says where a version's files are from now on.
func (c updateCmd) files(s *session, name, version string) (api.Model, error) {
	f := api.Files{Source: c.Source, Digest: c.Digest}
	if f.Source == "" {
		m, err := s.Model(s.ctx, name)
		if err != nil {
			return m, err
		}
		v := m.Find(version)
		if v == nil {
			return m, api.NotFound("model %s has no version %s", name, version)
		}
		f.Source = v.Source
	}
	if err := f.Check(); err != nil {
		return api.Model{}, flagged(err)
	}
	return s.SetFiles(s.ctx, name, version, f)
}

type removeCmd struct {
	Flags `embed:""`
	Names []string `arg:"" optional:"" help:"NAME for all of a model, NAME/VERSION for one version."`
	From  string   `help:"Remove what this file lists (name, and version for one version alone); - is standard input." placeholder:"FILE"`
}

// Run removes.
func (c removeCmd) Run() error { return c.run(c.remove) }

func (c removeCmd) remove(s *session) error {
	entries, err := c.entries(s)
	if err != nil {
		return err
	}
	return s.each("removed", entries, func(e *entry) error {
		if e.Version == "" {
			return s.DeleteModel(s.ctx, e.Name)
		}
		_, err := s.DeleteVersion(s.ctx, e.Name, e.Version)
		return err
	})
}

func (c removeCmd) entries(s *session) (all []entry, err error) {
	for _, key := range c.Names {
		name, version, err := split(key)
		if err != nil {
			return nil, err
		}
		all = append(all, entry{Name: name, Version: version})
	}
	if c.From != "" {
		from, err := s.read(c.From)
		if err != nil {
			return nil, err
		}
		for i := range from {
			if err := from[i].checkKey(false); err != nil {
				return nil, fmt.Errorf("%s: %w", from[i].at, err)
			}
		}
		all = append(all, from...)
	}
	if len(all) == 0 {
		return nil, errors.New("which models? write NAME or NAME/VERSION, or give --from FILE")
	}
	return all, nil
}

type listCmd struct {
	Flags `embed:""`
	State string `help:"Only models with a version in this state: waiting, fetching, loading, measuring, serving, unloading, idle, failed." placeholder:"STATE"`
}

// Run lists.
func (c listCmd) Run() error { return c.run(c.list) }

func (c listCmd) list(s *session) error {
	if st := api.State(c.State); c.State != "" && !slices.Contains(api.States(), st) {
		return fmt.Errorf("--state: %q is none of %v", c.State, api.States())
	}
	models := []api.Model{}
	err := s.All(s.ctx, api.State(c.State), func(m api.Model) error { models = append(models, m); return nil })
	if err != nil {
		return err
	}
	return s.print(api.Page{Models: models}, func() { s.listModels(models) })
}

type showCmd struct {
	Flags   `embed:""`
	Waiting `embed:"" set:"awaited=it is served" set:"order=order"`
	Name    string `arg:"" help:"NAME, or NAME/VERSION."`
}

// Run shows.
func (c showCmd) Run() error { return c.run(c.show) }

func (c showCmd) show(s *session) error {
	name, version, err := split(c.Name)
	if err != nil {
		return err
	}
	m, err := s.Model(s.ctx, name)
	if err != nil {
		return err
	}
	if c.Wait {
		of := version
		if of == "" && len(m.Versions) > 0 {
			of = m.Versions[len(m.Versions)-1].Version
		}
		err = s.await(c.Waiting, name, of)
		if again, e := s.Model(s.ctx, name); e == nil { // as it is now; Failed shows there, too
			m = again
		}
	}
	if version != "" && m.Find(version) == nil {
		return api.NotFound("model %s has no version %s", name, version)
	}
	return errors.Join(s.print(m, func() { s.showModel(&m, version) }), err)
}
