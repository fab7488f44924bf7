package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// changing is a repository whose models are changed at random while they are asked.
type changing struct {
	t      *testing.T
	r      *rand.Rand
	dir    string // the repository
	aside  string // a folder beside it, of the same file system
	models []*changed
	log    []string
}

// changed is a model of it.
type changed struct {
	*modelReader
	of      *changing
	outside string // where its weights lie; "": in the model's file
	linked  bool   // its version is a link to a folder aside
}

func (c *changing) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("an operation on the repository: %v", err)
	}
}

func (m *changed) dir() string             { return filepath.Join(m.of.dir, m.name) }
func (m *changed) version() string         { return filepath.Join(m.dir(), "1") }
func (m *changed) file(path string) string { return filepath.Join(m.version(), path) }

// next is the model's next generation.
func (m *changed) next() (paths []string, data map[string][]byte) {
	m.mu.Lock()
	m.made++
	e := embedding{m.made, m.outside}
	m.mu.Unlock()
	return e.files()
}

// anyFile is one of the model's files.
func (m *changed) anyFile() string {
	if m.outside != "" && m.of.r.IntN(2) == 0 {
		return m.file(m.outside)
	}
	return m.file("model.onnx")
}

// mend puts a whole generation in place, whatever is there, in one step.
func (m *changed) mend() {
	c := m.of
	fresh := filepath.Join(c.aside, fmt.Sprintf("%s-%d", m.name, c.r.Uint32()))
	paths, data := m.next()
	for _, p := range paths {
		c.must(os.MkdirAll(filepath.Dir(filepath.Join(fresh, p)), 0o755))
		c.must(os.WriteFile(filepath.Join(fresh, p), data[p], 0o644))
	}
	c.must(os.MkdirAll(m.dir(), 0o755))
	c.must(os.Chmod(m.dir(), 0o777)) // profiles are written there
	c.must(os.WriteFile(filepath.Join(m.dir(), "config.yaml.new"), []byte(embeddingConfig(4)), 0o644))
	c.must(os.Rename(filepath.Join(m.dir(), "config.yaml.new"), filepath.Join(m.dir(), "config.yaml")))
	if m.linked {
		link := filepath.Join(m.dir(), ".next")
		os.Remove(link)
		inside := filepath.Join(c.dir, ".data")
		c.must(os.MkdirAll(inside, 0o755))
		c.must(os.Rename(fresh, filepath.Join(inside, filepath.Base(fresh))))
		c.must(os.Symlink(filepath.Join("..", ".data", filepath.Base(fresh)), link))
		c.must(os.Rename(link, m.version()))
		return
	}
	if _, err := os.Lstat(m.version()); err == nil {
		c.must(os.Rename(m.version(), filepath.Join(c.aside, fmt.Sprintf("old-%d", c.r.Uint64()))))
	}
	c.must(os.Rename(fresh, m.version()))
}

// write writes bytes over a file, a piece at a time.
func (m *changed) write(path string, data []byte, flags int, pieces int, pause time.Duration) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|flags, 0o644)
	m.of.must(err)
	defer f.Close()
	for i := range pieces {
		_, err := f.WriteAt(data[len(data)*i/pieces:len(data)*(i+1)/pieces], int64(len(data)*i/pieces))
		m.of.must(err)
		time.Sleep(pause)
	}
}

// over writes a generation over the files that are there, in place.
func (m *changed) over(flags int, pieces int, pause, between time.Duration, most int) {
	m.plain()
	paths, data := m.next()
	for i, p := range paths {
		if i == most {
			return
		}
		m.of.must(os.MkdirAll(filepath.Dir(m.file(p)), 0o755))
		m.write(m.file(p), data[p], flags, pieces, pause)
		time.Sleep(between)
	}
	for _, p := range paths {
		m.of.must(os.Truncate(m.file(p), int64(len(data[p]))))
	}
}

// plain has regular files, that may be written, where the model's are.
func (m *changed) plain() {
	for _, p := range []string{"model.onnx", m.outside} {
		if info, err := os.Lstat(m.file(p)); p == "" || err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o644 {
			if p != "" {
				m.mend()
				return
			}
		}
	}
}

// operation is one, done to a model; it returns when it is over.
type operation struct {
	name string
	do   func(m *changed, r *rand.Rand)
}

func operations() []operation { return slices.Concat(copies(), damages(), moves()) }

func short(r *rand.Rand) time.Duration { return time.Duration(r.IntN(400)) * time.Millisecond }

// copies bring new files.
func copies() []operation {
	return []operation{
		{"a new version's folder takes the old one's place", func(m *changed, _ *rand.Rand) { m.mend() }},
		{"cp over the files", func(m *changed, r *rand.Rand) { m.over(os.O_TRUNC, 1+r.IntN(8), 30*time.Millisecond, 0, 9) }},
		{"cp, with a pause between the files", func(m *changed, r *rand.Rand) {
			m.over(os.O_TRUNC, 1, 0, time.Duration(500+r.IntN(3000))*time.Millisecond, 9)
		}},
		{"dd conv=notrunc, rsync --inplace", func(m *changed, r *rand.Rand) { m.over(0, 1+r.IntN(12), 60*time.Millisecond, short(r), 9) }},
		{"each file by rename, as rsync does", func(m *changed, r *rand.Rand) {
			m.plain()
			paths, data := m.next()
			for _, p := range paths {
				m.of.must(os.WriteFile(m.file(p)+".part", data[p], 0o644))
				m.of.must(os.Rename(m.file(p)+".part", m.file(p)))
				time.Sleep(short(r))
			}
		}},
		{"a hard link in place of each file", func(m *changed, r *rand.Rand) {
			m.plain()
			paths, data := m.next()
			for _, p := range paths {
				kept := filepath.Join(m.of.aside, fmt.Sprintf("kept-%d", r.Uint64()))
				m.of.must(os.WriteFile(kept, data[p], 0o644))
				os.Remove(m.file(p))
				m.of.must(os.Link(kept, m.file(p)))
			}
		}},
	}
}

// damages make what is there useless.
func damages() []operation {
	return []operation{
		{"truncated", func(m *changed, r *rand.Rand) {
			m.plain()
			m.of.must(os.Truncate(m.anyFile(), int64(r.IntN(20000))))
			time.Sleep(short(r) * 6)
		}},
		{"emptied", func(m *changed, r *rand.Rand) {
			m.plain()
			m.of.must(os.Truncate(m.anyFile(), 0))
			time.Sleep(short(r) * 6)
		}},
		{"a file deleted", func(m *changed, r *rand.Rand) {
			os.RemoveAll(m.anyFile())
			time.Sleep(short(r) * 6)
		}},
		{"a broken file", func(m *changed, r *rand.Rand) {
			m.plain()
			junk := make([]byte, 5000+r.IntN(100000))
			for i := range junk {
				junk[i] = byte(r.Uint32())
			}
			m.write(m.file("model.onnx"), junk, os.O_TRUNC, 2, 10*time.Millisecond)
			time.Sleep(short(r) * 6)
		}},
		{"half a file", func(m *changed, r *rand.Rand) {
			m.plain()
			_, data := m.next()
			m.write(m.file("model.onnx"), data["model.onnx"][:len(data["model.onnx"])/2], os.O_TRUNC, 1, 0)
			time.Sleep(short(r) * 6)
		}},
		{"a pipe, a folder or a huge file in place of a file", func(m *changed, r *rand.Rand) {
			m.plain()
			at := m.anyFile()
			os.RemoveAll(at)
			switch r.IntN(3) {
			case 0:
				m.of.must(syscall.Mkfifo(at, 0o644))
			case 1:
				m.of.must(os.Mkdir(at, 0o755))
			case 2:
				m.of.must(os.WriteFile(at, nil, 0o644))
				m.of.must(os.Truncate(at, 8<<40))
			}
			time.Sleep(short(r) * 6)
		}},
	}
}

// moves take a model, or all of them, away, or its permissions; and change how it is served.
func moves() []operation {
	return []operation{
		{"renamed, and back at once", func(m *changed, r *rand.Rand) {
			elsewhere := filepath.Join(m.of.aside, fmt.Sprintf("away-%d", r.Uint64()))
			m.of.must(os.Rename(m.dir(), elsewhere))
			time.Sleep(short(r) / 4)
			m.of.must(os.Rename(elsewhere, m.dir()))
		}},
		{"moved away, and back later", func(m *changed, r *rand.Rand) {
			m.plain() // a folder without a model's file is no model
			elsewhere := filepath.Join(m.of.aside, fmt.Sprintf("away-%d", r.Uint64()))
			m.set(func() { m.gone = true })
			m.of.must(os.Rename(m.dir(), elsewhere))
			time.Sleep(time.Duration(1500+r.IntN(2500)) * time.Millisecond)
			m.of.must(os.Rename(elsewhere, m.dir()))
			m.back()
		}},
		{"deleted, and there again", func(m *changed, r *rand.Rand) {
			m.set(func() { m.gone = true })
			os.RemoveAll(m.dir())
			time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
			m.mend()
			m.back()
		}},
		{"permissions taken away", func(m *changed, r *rand.Rand) {
			at := []string{m.anyFile(), m.version(), m.dir(), filepath.Join(m.dir(), "config.yaml"), m.of.dir}[r.IntN(5)]
			if info, err := os.Stat(at); err == nil {
				m.of.must(os.Chmod(at, 0))
				time.Sleep(short(r) * 8)
				m.of.must(os.Chmod(at, info.Mode().Perm()))
			}
		}},
		{"a mistake in config.yaml", func(m *changed, r *rand.Rand) {
			text := []string{"platform: nonsense\n", "slo: [", "", embeddingConfig(0)}[r.IntN(4)]
			m.of.must(os.WriteFile(filepath.Join(m.dir(), "config.yaml"), []byte(text), 0o644))
			time.Sleep(short(r) * 6)
			m.of.must(os.WriteFile(filepath.Join(m.dir(), "config.yaml"), []byte(embeddingConfig(4)), 0o644))
		}},
		{"another max_batch", func(m *changed, r *rand.Rand) {
			m.of.must(os.WriteFile(filepath.Join(m.dir(), "config.yaml"), []byte(embeddingConfig(2+r.IntN(8))), 0o644))
		}},
		{"the repository away, and back", func(m *changed, r *rand.Rand) {
			elsewhere := m.of.dir + ".away"
			m.of.must(os.Rename(m.of.dir, elsewhere))
			time.Sleep(short(r) * 8)
			m.of.must(os.Rename(elsewhere, m.of.dir))
		}},
	}
}

// foundMost is what a server may take to find that a folder is back which it has just found to be gone: a look, on a machine that
// does other things.
const foundMost = 2 * time.Second

// back waits until a model that was away is known again.
func (m *changed) back() {
	m.of.t.Helper()
	eventually(m.of.t, 60*time.Second, m.name+" is known again", func() error {
		if code, body, err := get("http://" + m.http + "/v2/models/" + m.name + "/ready"); err != nil || code == 404 {
			return fmt.Errorf("%d %s %v", code, body, err)
		}
		return nil
	})
	m.set(func() { m.gone, m.found = false, time.Now().Add(foundMost) })
}

// catchUp waits until the last generation of each answers.
func (c *changing) catchUp() {
	c.t.Helper()
	for _, m := range c.models {
		m.set(func() { m.gone = true }) // what was away for long may yet be told of
		m.mend()
	}
	for _, m := range c.models {
		m.back()
		m.catchesUp()
	}
}

// catchesUp waits until the last generation answers.
func (m *changed) catchesUp() {
	m.of.t.Helper()
	m.mu.Lock()
	want := m.made
	m.mu.Unlock()
	eventually(m.of.t, 90*time.Second, fmt.Sprintf("%s answers with generation %d", m.name, want), func() error {
		if seen, _ := m.state(); seen != want {
			return fmt.Errorf("generation %d", seen)
		}
		return nil
	})
}

// TestRepositoryChanges: whatever becomes of the files of a repository under load, the process lives, and each request
// gets the old or the new model's answer, or a 503 with its reason: never a mixture, never 404 for a model that is there.
// E2E_SEED is the seed, 3 without it: each seed has operations of its own. SYMPHONY_E2E_FULL=1 has 200 operations.
func TestRepositoryChanges(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("E2E_SEED"), 10, 64)
	if err != nil {
		seed = 3
	}
	n := 24
	if full() {
		n = 200
	}
	t.Logf("E2E_SEED=%d, %d operations", seed, n)
	c := &changing{t: t, r: rand.New(rand.NewPCG(seed, 37))}
	http := c.serve()
	stop, asking := make(chan struct{}), sync.WaitGroup{}
	for _, m := range c.models {
		m.http = http
		for k := range 2 {
			asking.Go(func() { m.run(stop, k*100) })
		}
	}
	c.catchUp()
	all := operations()
	for i := range n {
		m, o := c.models[c.r.IntN(len(c.models))], all[c.r.IntN(len(all))]
		c.log = append(c.log, fmt.Sprintf("%s %3d %s: %s", time.Now().UTC().Format("15:04:05.000"), i, m.name, o.name))
		o.do(m, c.r)
		time.Sleep(time.Duration(c.r.IntN(1500)) * time.Millisecond)
		if i%20 == 19 || i == n-1 {
			c.catchUp()
		}
		if c.wrong() {
			break
		}
	}
	close(stop)
	asking.Wait()
	for _, m := range c.models {
		_, served := m.state()
		t.Logf("%s: %d answers of %d generations, others: %v", m.name, served, m.made, m.told)
		for _, text := range m.modelReader.wrong {
			t.Errorf("%s: %s", m.name, text)
		}
		if served < 100 {
			t.Errorf("%s: only %d answers", m.name, served)
		}
	}
	if t.Failed() {
		for _, line := range c.log {
			t.Log(line)
		}
	}
}

func (c *changing) wrong() bool {
	for _, m := range c.models {
		m.mu.Lock()
		n := len(m.modelReader.wrong)
		m.mu.Unlock()
		if n > 0 {
			return true
		}
	}
	return false
}

// beginAsUser starts a server as another user. It skips the test where the system does not allow that, and only there.
func beginAsUser(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	err := begin(cmd)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("this container does not let a server start as user %d: %v", noRights, err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// noRights is the id of a user without rights: root reads files whatever their permissions are.
const noRights = 65534

// serve begins a server over models of all kinds, as a user without permission to read everything.
func (c *changing) serve() (http string) {
	t := c.t
	t.Helper()
	library := library(t)
	base, err := os.MkdirTemp("", "symphony-changes")
	c.must(err)
	t.Cleanup(func() {
		_ = exec.Command("chmod", "-R", "u+rwX", base).Run()
		os.RemoveAll(base)
	})
	c.must(os.Chmod(base, 0o777))
	c.dir, c.aside = filepath.Join(base, "repository"), filepath.Join(base, "aside")
	c.must(os.Mkdir(c.dir, 0o755))
	c.must(os.Mkdir(c.aside, 0o755))
	for _, m := range []changed{{outside: ""}, {outside: "w.bin"}, {outside: "data/w.bin"}, {outside: "w.bin", linked: true}} {
		m.of = c
		m.modelReader = newModelReader("", []string{"inside", "beside", "below", "linked"}[len(c.models)])
		m.gone = true
		c.models = append(c.models, &m)
		m.mend()
	}
	for from, to := range map[string]string{symphony: "symphony", library: "libonnxruntime.so"} { // where every user may read
		data, err := os.ReadFile(from)
		c.must(err)
		c.must(os.WriteFile(filepath.Join(base, to), data, 0o755))
	}
	http = hostPort(freePort(t))
	config := filepath.Join(base, "symphony.yaml")
	c.must(os.WriteFile(config, []byte("backend: {watch: true, scheduler: inproc:scheduler, pools: [{device_type: cpu, kind: cpu, devices: 2, threads: 1}]}\n"+
		"scheduler: {listen: [inproc:scheduler]}\nfrontend: {scheduler: [inproc:scheduler], listen: inproc:frontend}\n"), 0o644))
	cmd := exec.Command(filepath.Join(base, "symphony"), "serve", "--config", config, "--log-format", "console", "--repository", c.dir, "--http", http, "--grpc", "", "--admin", hostPort(freePort(t)),
		"--set", "backend.onnxruntime="+filepath.Join(base, "libonnxruntime.so"), "--set", "control.http="+hostPort(freePort(t)))
	cmd.Dir = base
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + base, "HOME=" + base}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: noRights, Gid: noRights}
	}
	p := &process{t: t, name: "serve", cmd: cmd, log: &lockedBuffer{}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	beginAsUser(t, cmd)
	go func() { cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		select {
		case <-p.done:
			t.Errorf("the server has ended: %v", cmd.ProcessState)
		default:
		}
		p.kill()
		if t.Failed() {
			t.Logf("---- serve\n%s", tail(p.log.String(), 150))
		}
	})
	eventually(t, 90*time.Second, "the ingress answers", func() error {
		_, _, err := get("http://" + http + "/v2/health/live")
		return err
	})
	return http
}
