package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/parts"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/catalog"
)

type serveCmd struct {
	cli.Flags  `embed:""`
	HTTP       string `help:"Address of the HTTP ingress (frontend.http)." placeholder:"HOST:PORT"`
	GRPC       string `name:"grpc" help:"Address of the same over gRPC (frontend.grpc); by default port 8001 beside HTTP's 8000." placeholder:"HOST:PORT"`
	Repository string `help:"Folder of models (backend.repository)." placeholder:"DIR"`
	Data       string `help:"Folder in which models that are added, versions and plans are kept over restarts (control.data)." placeholder:"DIR"`
	Ephemeral  bool   `help:"Keep them in memory (control.ephemeral): the default, without its note."`
	Admin      string `help:"Address of the live picture of the schedule, /ui, and of symphony top and explain (admin); 127.0.0.1:8003 if not given." placeholder:"HOST:PORT"`
	Samples    string `help:"When ready, send the images of this folder (with labels.csv) and print what comes back." placeholder:"DIR"`
	Model      string `help:"The model that gets the samples." default:"digits-cnn"`
	Once       bool   `help:"End after the samples, with status 0 if at least 19 of 20 are right."`
}

// Run serves with all parts in one process until Ctrl-C.
func (c serveCmd) Run() error {
	cfg, err := c.Load(config.Set{Key: "frontend.http", Value: c.HTTP}, config.Set{Key: "frontend.grpc", Value: c.GRPC}, config.Set{Key: "backend.repository", Value: c.Repository},
		config.Set{Key: "control.data", Value: c.Data}, config.Set{Key: "control.ephemeral", Value: onlyTrue(c.Ephemeral)}, config.Set{Key: "admin", Value: c.Admin})
	if err != nil {
		return err
	}
	if c.Once && c.Samples == "" {
		return errors.New("--once needs --samples: there is nothing to do once")
	}
	if c.Samples != "" {
		if err := haveSamples(c.Samples); err != nil {
			return fmt.Errorf("--samples: %w", err)
		}
	}
	if cfg.Frontend.HTTP == "" {
		return errors.New("frontend.http is empty: serve is with HTTP, give --http HOST:PORT; applications without it embed the Go package frontend")
	}
	forgets := !cfg.Control.Configured()
	if forgets {
		cfg.Control.Ephemeral = true
	}
	lasts := cfg.Backend.Cache != "" || cfg.Control.Data != ""
	removeCache, err := cacheFor(&cfg)
	if err != nil {
		return err
	}
	defer removeCache()
	p, err := parts.New(cfg)
	if err != nil {
		return err
	}
	if !lasts { // a cache that is made here is left behind where the process is killed
		p.Snapshots = ""
	}
	if forgets {
		p.Log.Info().Msg("models that are added while this runs are forgotten at its end; --data DIR keeps them")
	}
	ctx, cancel := cli.UntilSignal(p.Log)
	defer cancel()
	if err := p.ServePicture(true); err != nil {
		return err
	}
	defer p.CloseAdmin()
	s, err := p.Serve(ctx)
	if err != nil {
		return cli.Interrupted(ctx, err)
	}
	if c.Samples != "" {
		err = samples(ctx, s, c.Samples, c.Model, c.Once)
	}
	if err == nil && !c.Once {
		err = s.Web.Wait(ctx)
	}
	return errors.Join(err, s.Drain())
}

// samples waits until the model is ready and shows it at work.
func samples(ctx context.Context, s *parts.System, dir, model string, once bool) error {
	if err := awaitModel(ctx, s, model); err != nil {
		return err
	}
	right, total, err := showSamples(ctx, os.Stdout, "http://"+s.Web.Address, s.Admin, model, dir, once)
	if err != nil {
		return err
	}
	if right*20 < total*19 {
		return fmt.Errorf("only %d of %d samples are right", right, total)
	}
	return nil
}

// modelWait is how long the samples wait for their model. It is not short: a backend of
// another host may bring it.
const modelWait = 30 * time.Second

// awaitModel waits until the model is ready; not once our own backend has joined and the
// catalogue lacks the model, which is then most likely a name misspelt.
func awaitModel(ctx context.Context, s *parts.System, model string) error {
	for until := time.Now().Add(modelWait); ; {
		// Of before the wait: the catalogue comes a moment after the backend was admitted.
		joined := s.Backend.Ready() && len(s.Client.Models().Entries) > 0
		try, cancel := context.WithTimeout(ctx, time.Second)
		err := s.Client.WaitReady(try, model)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("model %s: %w", model, err)
		}
		_, unknown := s.Client.Model(model, "")
		ended := time.Now().After(until)
		switch {
		case errors.Is(unknown, frontend.ErrUnknownModel) && (joined || ended):
			return fmt.Errorf("no model %q; there are %v: name one with --model", model, modelNames(s.Client.Models()))
		case ended:
			return fmt.Errorf("model %q is not ready after %v: has its backend any device for it?", model, modelWait)
		}
	}
}

// modelNames are the catalogue's, each once, however many versions there are.
func modelNames(c catalog.Catalogue) []string {
	var names []string
	for _, e := range c.Entries {
		names = append(names, e.Spec.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// cacheFor gives the backend a folder for files of models that are added, where none is
// configured: beside the control plane's state, or for as long as that is kept.
func cacheFor(cfg *config.Config) (remove func(), err error) {
	switch {
	case cfg.Backend.Cache != "":
	case cfg.Control.Data != "":
		cfg.Backend.Cache = filepath.Join(cfg.Control.Data, "cache")
	default:
		if cfg.Backend.Cache, err = os.MkdirTemp("", "symphony-cache-"); err != nil {
			return nil, fmt.Errorf("a folder for files of models: %w; say where by --set backend.cache=DIR", err)
		}
		return func() { _ = os.RemoveAll(cfg.Backend.Cache) }, nil // what is left is in the system's temporary folder
	}
	return func() {}, nil
}

// onlyTrue is a flag as a setting: one that is not given says nothing.
func onlyTrue(b bool) string {
	if b {
		return "true"
	}
	return ""
}
