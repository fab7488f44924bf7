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
	at   int // index of underAttack's ports
	run  func(t *testing.T, port string) (told string)
	says string // in what it is told
}

// What is attacked.
const (
	toScheduler = iota
	toFrontend  // its port for backends
	toHTTP
)

// hostile are the rows.
func hostile(t *testing.T) []attack {
	picture := photo(t)
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
		{"documents of 60 MiB from a backend", toScheduler, backend.thrice(document(wire.DocBackend, times(" ", 60<<20))), ""},
		{"a document of 17 MiB from a backend", toScheduler, backend.sends(is((&wire.Doc{Type: wire.DocBackend}).Append(nil, 17<<20))), "document of 17825792 bytes, at most 16777216"},
		{"a document of 1 MiB from a frontend", toScheduler, frontend.sends(document(wire.DocFrontend, times(" ", 1<<20))), "document of 1048576 bytes, at most 65536"},
		{"brackets in a backend's document", toScheduler, backend.sends(document(wire.DocBackend, times("[", 8<<20))), "nested more than 16 deep"},
		{"brackets in a frontend's document", toScheduler, frontend.sends(document(wire.DocFrontend, times(`{"a":`, 10_000))), "nested more than 16 deep"},
		{"millions of models", toScheduler, backend.sends(list(join(`{"models":[`, many("{}", 5<<20), `]}`))), "models: more than 4096"},
		{"thousands of tensors", toScheduler, backend.sends(model(`"inputs":[`, many("{}", 5000), `]`)), "inputs: more than 64"},
		{"huge dimensions", toScheduler, backend.sends(model(`"inputs":[{"name":"x","type":"FP32","shape":[4611686018427387904,64]}]`)), "more than 268435456 bytes"},
		{"a long name", toScheduler, backend.sends(document(wire.DocBackend, join(`{"name":"`, times("n", 1<<20), `"}`))), "name: a string of 1048576 bytes, at most 256"},
		{"a long address", toScheduler, frontend.sends(document(wire.DocFrontend, join(`{"address":"tcp:`, times("h", 200), `:1"}`))), "1 to 128 bytes"},
		{"a long digest", toScheduler, backend.sends(model(`"labels":"`, times("l", 1<<20), `"`)), "labels: a string of 1048576 bytes"},
		{"no JSON", toScheduler, backend.sends(document(wire.DocBackend, noise)), "BackendInfo: "},
		{"another's document", toScheduler, frontend.sends(document(wire.DocBackend, join(`{}`))), "document 2 is not expected of a frontend"},
		{"a document that is none", toScheduler, backend.sends(is((&wire.Doc{Type: 99}).Append(nil, 0))), "document type 99"},
		{"models that were not asked for", toScheduler, backend.sends(document(wire.DocModels, join(`{}`))), "document 6 is not expected of a backend"},
		{"ids of a backend's models", toScheduler, backend.sends(document(wire.DocBound, join(`{}`))), "document 8 is not expected of a backend"},
		{"a device of a backend that is none", toScheduler, backend.sends(document(wire.DocService, join(`{"pool":3}`))), "document 9 is not expected of a backend"},
		{"an introduction again", toScheduler, frontend.sends(introduction, introduction), "introduces itself once"},
		{"a request before the introduction", toScheduler, frontend.sends(is(submit)), "broke the protocol"},
		{"a payload on a request", toScheduler, frontend.sends(rewritten(document(wire.DocFrontend, times(" ", 1<<20)), wire.KindSubmit)), "which it may not have"},
		{"an order to the scheduler", toScheduler, backend.sends(is((&wire.Batch{}).Append(nil))), "frame of kind 34 from a backend"},
		{"a frame of no kind", toScheduler, frontend.sends(rewritten(is((&wire.Leave{}).Append(nil)), 99)), "frame of kind 99 from a frontend"},
		{"a lane of who has none", toScheduler, backend.sends(is((&wire.LaneUp{}).Append(nil))), "from a peer without lanes"},
		{"a hello again", toScheduler, backend.sends(is((&wire.Hello{Role: wire.RoleBackend}).Append(nil))), "a second hello"},
		{"a damaged frame", toScheduler, frontend.sends(is(damaged)), "checksum is wrong"},
		{"reports of no batch", toScheduler, backend.sends(times(string((&wire.Done{Batch: 12345}).Append(nil)), 50_000)), ""},
		{"pings without end", toScheduler, backend.sends(times(string((&wire.Ping{}).Append(nil)), 100_000)), ""},
		{"the wrong token", toScheduler, stranger{wire.RoleBackend, "guess"}.sends(), "cluster token"},
		{"no token", toFrontend, stranger{wire.RoleBackend, ""}.sends(), "cluster token"},
		{"a scheduler", toScheduler, stranger{wire.RoleScheduler, secret}.sends(), "a scheduler serves frontends, backends and controllers"},
		{"a frontend at a frontend", toFrontend, frontend.sends(), "only backends"},
		{"a document to a frontend", toFrontend, backend.sends(document(wire.DocChanges, times(" ", 1<<20))), "which it may not have"},
		{"READs without end", toFrontend, backend.sends(times(string((&wire.Read{Request: 1, Input: wire.SlabRef{Length: 1 << 20}}).Append(nil)), 100_000)), ""},
		{"outputs that nobody awaits", toFrontend, backend.sends(output(16<<10, 500)), ""},
		{"an output of 100 MiB that nobody awaits", toFrontend, backend.sends(output(100<<20, 1)), ""},
		{"noise", toScheduler, raw(noise), ""},
		{"HTTP", toFrontend, raw(join("GET / HTTP/1.1\r\nHost: x\r\n\r\n")), ""},
		{"TLS", toScheduler, raw(join("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so on")), ""},
		{"a hello byte by byte", toScheduler, slowly, ""},
		{"half-open connections", toScheduler, halfOpen, ""},
		{"half-open connections to a frontend", toFrontend, halfOpen, ""},
		{"introductions without end", toScheduler, introductions, "a backend needs a name"},
		{"links that say nothing", toScheduler, silentLinks, ""},
		{"connections without end", toScheduler, connections, ""},
		{"connections to a frontend without end", toFrontend, connections, ""},
		{"slow bodies", toHTTP, slowBodies, "HTTP/1.1 408"},
		{"headers byte by byte", toHTTP, slowHeader, ""},
		{"a body without end", toHTTP, raw(join("POST /v2/models/ResNet50/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1099511627776\r\n\r\n", times("x", 8<<20))), ""},
		{"brackets over HTTP", toHTTP, posts("/v2/models/ResNet50/infer", times("[", 8<<20)), "400"},
		{"an image bomb", toHTTP, posts("/v1/classify/m", is(bomb())), "megapixels"},
		{"image bombs, sixteen at a time", toHTTP, atOnce(16, posts("/v1/classify/m", is(bomb()))), "megapixels"},
		{"photos that cannot be decoded in time", toHTTP, atOnce(4, posts("/v1/classify/m?timeout_ms=5", is(picture))), "image"},
		{"answers that are not read", toHTTP, unread, ""},
		{"connections to HTTP without end", toHTTP, connections, ""},
		{"links out of the repository", toScheduler, linksOut, "leads out of the repository"},
	}
}

// Beside each stranger good traffic is served, and when it is gone, so is what it took.
// It is told in clear words what was wrong, and the log does not drown.
func TestStrangers(t *testing.T) {
	var log lines
	system, ports := underAttack(t, &log)
	serve(t, system.Client, 50, nil) // what grows with the first requests has grown
	for _, a := range hostile(t) {
		t.Run(a.name, func(t *testing.T) {
			port := ports[a.at]
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

// underAttack is a whole system with open ports: the scheduler's, the frontend's for
// backends, and HTTP.
func underAttack(t *testing.T, log *lines) (*System, [3]string) {
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
	cfg.Frontend.HTTP, cfg.Frontend.BodyTime, cfg.Frontend.HeaderTime = "127.0.0.1:0", 6*mono.Second, mono.Second
	cfg.Backend.Repository = imageRepository(t)
	cfg.Backend.Pools = []config.Pool{{DeviceType: "e", Kind: "emulated", Devices: 2, Zoo: []config.Zoo{{CSV: "../../../examples/zoo/zoo_a100.csv",
		Models: []string{"ResNet50"}, SLO: 2 * mono.Second}}}, {DeviceType: "cpu", Kind: "emulated", Devices: 1}}
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
	if s.Web, err = p.Ingress(s.Client); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.WaitReady(t.Context(), "ResNet50"); err != nil {
		t.Fatal(err)
	}
	return s, [3]string{strings.TrimPrefix(s.Scheduler.Addresses()[0], "tcp:"), data, s.Web.Address}
}

// serve sends good requests, some at a time, at least so many and until the attack ends.
func serve(t *testing.T, c *frontend.Client, least int, during <-chan string) (served, lost int) {
	t.Helper()
	var all, bad, over atomic.Int64
	var clients sync.WaitGroup
	for range 16 {
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
