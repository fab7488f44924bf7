package parts

import (
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// secret is the token of the system under attack. Most strangers know it: who is kept
// out by it can do less.
const secret = "open sesame"

// attack is one row: what a stranger does to a port, and what it must be told.
type attack struct {
	name string
	data bool // the frontend's port for backends; else the scheduler's
	run  func(t *testing.T, port string) (told string)
	says string // in what it is told
}

// hostile are the rows.
func hostile() []attack {
	model := func(rest ...any) text {
		return list(join(`{"models":[{"name":"m","version":"1",`, join(rest...), `}]}`))
	}
	backend, frontend := stranger{wire.RoleBackend, secret}, stranger{wire.RoleFrontend, secret}
	introduction := document(wire.DocFrontend, join(`{"name":"x","address":"tcp:127.0.0.1:1"}`))
	submit := (&wire.Submit{Request: 1}).Append(nil)
	damaged := append([]byte(nil), submit...)
	damaged[20] ^= 1
	return []attack{
		// Who still sends when its link is reset may not hear why: no words are asked for.
		{"documents of 60 MiB from a backend", false, backend.thrice(document(wire.DocBackend, times(" ", 60<<20))), ""},
		{"a document of 17 MiB from a backend", false, backend.sends(is((&wire.Doc{Type: wire.DocBackend}).Append(nil, 17<<20))), "document of 17825792 bytes, at most 16777216"},
		{"a document of 1 MiB from a frontend", false, frontend.sends(document(wire.DocFrontend, times(" ", 1<<20))), "document of 1048576 bytes, at most 65536"},
		{"brackets in a backend's document", false, backend.sends(document(wire.DocBackend, times("[", 8<<20))), "nested more than 16 deep"},
		{"brackets in a frontend's document", false, frontend.sends(document(wire.DocFrontend, times(`{"a":`, 10_000))), "nested more than 16 deep"},
		{"millions of models", false, backend.sends(list(join(`{"models":[`, many("{}", 5<<20), `]}`))), "models: more than 4096"},
		{"thousands of tensors", false, backend.sends(model(`"inputs":[`, many("{}", 5000), `]`)), "inputs: more than 64"},
		{"huge dimensions", false, backend.sends(model(`"inputs":[{"name":"x","type":"FP32","shape":[4611686018427387904,64]}]`)), "more than 268435456 bytes"},
		{"a long name", false, backend.sends(document(wire.DocBackend, join(`{"name":"`, times("n", 1<<20), `"}`))), "name: a string of 1048576 bytes, at most 256"},
		{"a long address", false, frontend.sends(document(wire.DocFrontend, join(`{"address":"tcp:`, times("h", 200), `:1"}`))), "1 to 128 bytes"},
		{"a long digest", false, backend.sends(model(`"labels":"`, times("l", 1<<20), `"`)), "labels: a string of 1048576 bytes"},
		{"no JSON", false, backend.sends(document(wire.DocBackend, noise)), "BackendInfo: "},
		{"another's document", false, frontend.sends(document(wire.DocBackend, join(`{}`))), "document 2 is not expected of a frontend"},
		{"a document that is none", false, backend.sends(is((&wire.Doc{Type: 99}).Append(nil, 0))), "document type 99"},
		{"models that were not asked for", false, backend.sends(document(wire.DocModels, join(`{}`))), "document 6 is not expected of a backend"},
		{"ids of a backend's models", false, backend.sends(document(wire.DocBound, join(`{}`))), "document 8 is not expected of a backend"},
		{"an introduction again", false, frontend.sends(introduction, introduction), "introduces itself once"},
		{"a request before the introduction", false, frontend.sends(is(submit)), "broke the protocol"},
		{"a payload on a request", false, frontend.sends(rewritten(document(wire.DocFrontend, times(" ", 1<<20)), wire.KindSubmit)), "which it may not have"},
		{"an order to the scheduler", false, backend.sends(is((&wire.Batch{}).Append(nil))), "frame of kind 34 from a backend"},
		{"a frame of no kind", false, frontend.sends(rewritten(is((&wire.Leave{}).Append(nil)), 99)), "frame of kind 99 from a frontend"},
		{"a lane of who has none", false, backend.sends(is((&wire.LaneUp{}).Append(nil))), "from a peer without lanes"},
		{"a hello again", false, backend.sends(is((&wire.Hello{Role: wire.RoleBackend}).Append(nil))), "a second hello"},
		{"a damaged frame", false, frontend.sends(is(damaged)), "checksum is wrong"},
		{"reports of no batch", false, backend.sends(times(string((&wire.Done{Batch: 12345}).Append(nil)), 50_000)), ""},
		{"pings without end", false, backend.sends(times(string((&wire.Ping{}).Append(nil)), 100_000)), ""},
		{"the wrong token", false, stranger{wire.RoleBackend, "guess"}.sends(), "cluster token"},
		{"no token", true, stranger{wire.RoleBackend, ""}.sends(), "cluster token"},
		{"a scheduler", false, stranger{wire.RoleScheduler, secret}.sends(), "a scheduler serves frontends and backends"},
		{"a frontend at a frontend", true, frontend.sends(), "only backends"},
		{"a document to a frontend", true, backend.sends(document(wire.DocChanges, times(" ", 1<<20))), "which it may not have"},
		{"READs without end", true, backend.sends(times(string((&wire.Read{Request: 1, Input: wire.SlabRef{Length: 1 << 20}}).Append(nil)), 100_000)), ""},
		{"outputs that nobody awaits", true, backend.sends(output(16<<10, 500)), ""},
		{"an output of 100 MiB that nobody awaits", true, backend.sends(output(100<<20, 1)), ""},
		{"noise", false, raw(noise), ""},
		{"HTTP", true, raw(join("GET / HTTP/1.1\r\nHost: x\r\n\r\n")), ""},
		{"TLS", false, raw(join("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so on")), ""},
		{"a hello byte by byte", false, slowly, ""},
		{"half-open connections", false, halfOpen, ""},
		{"half-open connections to a frontend", true, halfOpen, ""},
		{"introductions without end", false, introductions, "a backend needs a name"},
		{"links that say nothing", false, silentLinks, ""},
		{"connections without end", false, connections, ""},
		{"connections to a frontend without end", true, connections, ""},
	}
}

// Beside each stranger good traffic is served, and when it is gone, so is what it took.
// It is told in clear words what was wrong, and the log does not drown.
func TestStrangers(t *testing.T) {
	var log lines
	system, ports := underAttack(t, &log)
	serve(t, system.Client, 50, nil) // what grows with the first requests has grown
	for _, a := range hostile() {
		t.Run(a.name, func(t *testing.T) {
			port := ports[0]
			if a.data {
				port = ports[1]
			}
			before, wrote := heap(), strings.Count(log.String(), "\n")
			told := make(chan string, 1)
			go func() {
				defer close(told)
				text := a.run(t, port)
				// A peer that sends on when its link is reset may lose what it was told.
				for again := 0; again < 3 && text == "" && a.says != ""; again++ {
					text = a.run(t, port)
				}
				told <- text
			}()
			served, lost := serve(t, system.Client, 200, told)
			if lost > served/200 {
				t.Errorf("%d of %d good requests were lost", lost, served)
			}
			if text := <-told; !strings.Contains(text, a.says) || strings.Count(text, "rejected") > 1 {
				t.Errorf("it was told %q, want %q in it", text, a.says)
			}
			after := heap()
			for end := time.Now().Add(20 * time.Second); after > before+before/5 && time.Now().Before(end); after = heap() {
				time.Sleep(50 * time.Millisecond)
			}
			if after > before+before/5 {
				t.Errorf("the heap has %d bytes, and had %d before", after, before)
			}
			t.Logf("%d served, %d lost; heap %d, before %d", served, lost, after, before)
			if n := strings.Count(log.String(), "\n") - wrote; n > 20 {
				t.Errorf("%d lines in the log", n)
			}
		})
	}
}

// underAttack is a whole system with open ports: the scheduler's, and the frontend's for
// backends.
func underAttack(t *testing.T, log *lines) (*System, [2]string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	data := free.Addr().String()
	free.Close()
	cfg := config.Default()
	cfg.Token, cfg.RDMA.Mode, cfg.TCP.KernelRTT = secret, "never", "never"
	cfg.Scheduler.Listen, cfg.Frontend.Listen, cfg.Frontend.Arena = []string{"tcp:127.0.0.1:0"}, "tcp:"+data, 16<<20
	cfg.Backend.Pools = []config.Pool{{DeviceType: "e", Kind: "emulated", Devices: 2, Zoo: []config.Zoo{{CSV: "../../../examples/zoo/zoo_a100.csv",
		Models: []string{"ResNet50"}, SLO: 2 * mono.Second}}}}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.Log = zerolog.New(log)
	s, err := p.ServeLibrary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Drain() })
	if err := s.Client.WaitReady(t.Context(), "ResNet50"); err != nil {
		t.Fatal(err)
	}
	return s, [2]string{strings.TrimPrefix(s.Scheduler.Addresses()[0], "tcp:"), data}
}

// serve sends good requests, four at a time, at least so many and until the attack ends.
func serve(t *testing.T, c *frontend.Client, least int, during <-chan string) (served, lost int) {
	t.Helper()
	var all, bad, over atomic.Int64
	var clients sync.WaitGroup
	for range 4 {
		clients.Add(1)
		go func() {
			defer clients.Done()
			for all.Load() < int64(least) || over.Load() == 0 && during != nil {
				all.Add(1)
				r, err := c.Infer(t.Context(), frontend.Request{Model: "ResNet50", Inputs: []frontend.Tensor{{Name: "input", Type: catalog.FP32, Shape: []int64{8}, Data: make([]byte, 32)}}})
				if err != nil {
					bad.Add(1)
					t.Log(err)
					continue
				}
				r.Release()
			}
		}()
	}
	if during != nil {
		for len(during) == 0 {
			time.Sleep(5 * time.Millisecond)
		}
		over.Store(1)
	}
	clients.Wait()
	return int(all.Load()), int(bad.Load())
}

// heap is what lives on it.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // pools give back with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
