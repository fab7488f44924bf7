package store

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

var rewrite = flag.Bool("rewrite", false, "write the data directory of this version anew")

// A golden is a data directory that an etcd in a process left when it ended, packed. That of
// version 0 was made by hand, before there was a version 1; a new version of the schema adds
// its own, and the old ones stay.
func golden(version int) string { return fmt.Sprintf("testdata/data-v%d.tar.gz", version) }

// goldenModel has every field, in words that need escapes.
func goldenModel() schema.Model {
	return schema.Model{Name: "team/résumé", Desired: schema.Served, Policy: schema.Policy{Kind: schema.PolicyListed, Listed: []string{"1", "2"}},
		Settings: schema.Settings{SLO: 50 * mono.Millisecond, DropPolicy: "target", MaxBatch: 32, DeviceTypes: []string{"cpu", "nvidia-h100"}},
		Versions: []schema.ModelVersion{{Version: "1", Source: "s3://models/résumé/1?region=x", Digest: "sha256:01", Size: 1 << 30, Added: 1700000000e9},
			{Version: "2", Source: "file:///models/résumé/2", Digest: "sha256:02", Size: 7, Added: 1700000001e9, Settings: &schema.Settings{SLO: 60 * mono.Millisecond}}},
		Shares: []schema.Share{{Version: "1", Weight: 90}, {Version: "2", Weight: 10}},
		Past:   []schema.PastShares{{At: 1700000002e9, Shares: []schema.Share{{Version: "1", Weight: 1}}}}}
}

func goldenRest() (schema.Observation, schema.Load, schema.Measured, schema.Control, schema.Plan, []schema.SubCluster) {
	name := goldenModel().Name
	return schema.Observation{Model: name, Version: "2", State: schema.Failed, Reason: "its file is broken", Since: 5, Done: 3, Total: 7, SubCluster: "s0", GPUs: 2, Tries: 3, Next: 9},
		schema.Load{Model: name, Version: "1", Rate: 123.5, Needs: []schema.Need{{DeviceType: "cpu", GPUs: 1.25}}, At: 6},
		schema.Measured{Model: name, Version: "1", DeviceType: "cpu", Digest: "sha256:01", Environment: "two cores", Static: 10, Dynamic: 20, At: 7,
			Profile: catalog.Profile{Alpha: 1053 * mono.Microsecond, Beta: 5072 * mono.Microsecond, Table: []mono.Dur{6, 7}}},
		schema.Control{Name: schema.Epochs, Off: true, Why: "by hand", Since: 8},
		schema.Plan{Epoch: 41, At: 9, By: "host1", Cause: "needs", State: schema.InForce, Ended: 10, Models: 1, GPUs: 2, Need: 1.25, Moves: 1, Steps: 4, StepsDone: 4},
		[]schema.SubCluster{{Epoch: 41, Name: "s0", DeviceType: "cpu", Models: []string{name + "/1", name + "/2"}, GPUs: 2, Need: 1.25}}
}

// A data directory of this version is opened, and all in it is as it was written. What a
// later version must be able to open is what this test writes with -rewrite.
func TestGoldenOfThisVersion(t *testing.T) {
	o, l, p, c, plan, subs := goldenRest()
	if *rewrite {
		dir := t.TempDir()
		s, err := Open(limited(t), Config{Data: dir})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Models.Create(limited(t), goldenModel())
		_, cerr := s.Controls.Create(limited(t), c)
		err = errors.Join(err, cerr, s.Observed.Write(limited(t), []schema.Observation{o}, nil), s.Loads.Write(limited(t), []schema.Load{l}, nil),
			s.Profiles.Write(limited(t), []schema.Measured{p}, nil), s.PutPlan(limited(t), plan, subs))
		if err = errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		pack(t, dir, golden(schema.Version))
	}
	s, _ := open(t, Config{Data: unpack(t, golden(schema.Version))})
	ctx := limited(t)
	same(t, &s.Models, goldenModel())
	same(t, &s.Observed, o)
	same(t, &s.Loads, l)
	same(t, &s.Profiles, p)
	same(t, &s.Controls, c)
	plan.SubClusters = len(subs)
	if e, got, err := s.LatestPlan(ctx); err != nil || e.Value != plan || !reflect.DeepEqual(got, subs) {
		t.Errorf("%+v with %+v, %v", e, got, err)
	}
}

// same is whether a table holds these, and nothing else.
func same[T schema.Document](t *testing.T, table *Table[T], want ...T) {
	t.Helper()
	all, _, err := table.All(limited(t))
	if err != nil || len(all) != len(want) {
		t.Errorf("%d %s, want %d: %v", len(all), table.kind.Name, len(want), err)
		return
	}
	for i, e := range all {
		if !reflect.DeepEqual(e.Value, want[i]) {
			t.Errorf("%s:\n%+v, want\n%+v", table.kind.Name, e.Value, want[i])
		}
	}
}

// A data directory of the draft, version 0, is opened by this version: all of it is there, in
// the new form. Opened again it is not touched.
func TestGoldenOfTheDraft(t *testing.T) {
	if _, err := os.Stat(golden(0)); *rewrite && err != nil { // it stays what it is, unless its file is removed
		dir := t.TempDir()
		t.Run("write", func(t *testing.T) { _, c := raw(t, dir); put(t, c, draft()...) })
		pack(t, dir, golden(0))
	}
	dir := unpack(t, golden(0))
	want := []schema.Model{
		{Name: "bert", Desired: schema.Stopped, Policy: schema.Policy{Kind: schema.PolicyLatest},
			Versions: []schema.ModelVersion{{Version: "1", Source: "file:///models/bert/1", Added: 1600000000e9}}},
		{Name: "team/résumé", Desired: schema.Served, Policy: schema.Policy{Kind: schema.PolicyListed, Listed: []string{"9", "10"}},
			Settings: schema.Settings{SLO: 50 * mono.Millisecond, DropPolicy: "head", MaxBatch: 16},
			Versions: []schema.ModelVersion{
				{Version: "8", Source: "s3://models/8", Digest: "sha256:08", Size: 8, Added: 1600000008e9, Settings: &schema.Settings{SLO: 20 * mono.Millisecond}},
				{Version: "9", Source: "s3://models/9", Digest: "sha256:09", Size: 9, Added: 1600000009e9, Settings: &schema.Settings{SLO: 40 * mono.Millisecond, MaxBatch: 8}},
				{Version: "10", Source: "s3://models/10", Digest: "sha256:10", Size: 10, Added: 1600000010e9}},
			Shares: []schema.Share{{Version: "9", Weight: 75}, {Version: "10", Weight: 25}}},
	}
	profile := schema.Measured{Model: "team/résumé", Version: "10", DeviceType: "nvidia-h100", Static: 100, Dynamic: 200,
		Profile: catalog.Profile{Alpha: 1053 * mono.Microsecond, Beta: 5072 * mono.Microsecond}}
	var identity string
	for _, migrations := range []int{1, 0} {
		s, log := open(t, Config{Data: dir})
		same(t, &s.Models, want...)
		same(t, &s.Profiles, profile)
		same(t, &s.Observed)
		same(t, &s.Backends)
		if n := log.count("was migrated"); n != migrations {
			t.Errorf("migrated %d times", n)
		}
		if identity != "" && s.identity != identity {
			t.Error("it is another one")
		}
		identity = s.identity
		resp, err := s.client.Get(limited(t), s.cfg.Prefix+"0/", prefixed()...)
		if err != nil || len(resp.Kvs) != 0 {
			t.Errorf("%d documents of the draft are left, %v", len(resp.Kvs), err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func pack(t *testing.T, dir, file string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	z, _ := gzip.NewWriterLevel(f, gzip.BestCompression)
	w := tar.NewWriter(z)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o600, Size: int64(len(text)), ModTime: time.Unix(0, 0)}); err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	})
	if err := errors.Join(err, w.Close(), z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, file string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil || !filepath.IsLocal(h.Name) {
			t.Fatal(h, err)
		}
		path := filepath.Join(dir, h.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
	if !slices.Contains(names, "etcd/member/snap/db") {
		t.Fatalf("%s holds %q", file, names)
	}
	return dir
}
