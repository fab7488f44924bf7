package fakecuda

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Kernels are models by their names.
type Kernels map[string]Kernel

// Kernel is a model: what it computes, and how long that takes.
type Kernel struct {
	// Run computes a batch, tensor by tensor, items back to back, on the device's memory.
	// nil: the outputs are left as they are. An error is a kernel that failed: the device
	// is lost. It runs on the stream's goroutine, one at a time on a device.
	Run func(size int, in, out [][]byte) error
	// Time is l(b): a run takes at least as long. nil: none.
	Time func(size int) mono.Dur
	// Memory is what the loaded model holds of the device, bytes.
	Memory int64
}

// Runtime implements cuda.Runtime by a table.
type Runtime struct {
	kernels Kernels // Immutable.

	mu          sync.Mutex // Guards what follows.
	loads, runs []error    // ordered by tests
}

// NewRuntime makes a runtime that knows these models.
func NewRuntime(k Kernels) *Runtime { return &Runtime{kernels: maps.Clone(k)} }

// program is a loaded model. What is not immutable is guarded by the GPU's lock.
type program struct {
	r      *Runtime
	c      *context
	s      *stream
	m      *cuda.Model
	kernel *Kernel
	bound  map[[2]int]*binding // by slot and size
	memory *block              // nil: it holds none
	beside int64               // bytes of libraries that came with it
	closed bool
}

// binding is a batch size at its place: all that Run needs.
type binding struct {
	kernel  *Kernel
	size    int
	in, out [][]byte
	spans   []span
	length  mono.Dur
}

// Load implements cuda.Runtime.
func (r *Runtime) Load(c cuda.Context, s cuda.Stream, m *cuda.Model) (cuda.Program, error) {
	ctx, ok := c.(*context)
	st, okStream := s.(*stream)
	if !ok || !okStream || st.c.p != ctx.p {
		return nil, errors.New("fakecuda: Load takes a context and a stream of one device of its own")
	}
	if err := r.next(&r.loads); err != nil {
		return nil, fmt.Errorf("loading %s: %w", m.Spec.Key(), err)
	}
	k, ok := r.kernels[m.Spec.Name]
	if !ok {
		return nil, fmt.Errorf("fakecuda has no kernel %q: it knows %v", m.Spec.Name, slices.Sorted(maps.Keys(r.kernels)))
	}
	if err := ctx.begin("Load"); err != nil {
		return nil, err
	}
	defer ctx.g.mu.Unlock()
	p := &program{r: r, c: ctx, s: st, m: m, kernel: &k, bound: map[[2]int]*binding{}}
	if k.Memory > 0 {
		var err error
		if p.memory, err = ctx.alloc(k.Memory); err != nil {
			return nil, fmt.Errorf("loading %s: %w", m.Spec.Key(), err)
		}
	}
	if ctx.p.library == 0 {
		ctx.p.library = ctx.d.c.Libraries
		ctx.g.used += ctx.p.library
		p.beside = ctx.p.library
	}
	ctx.open.Programs++
	return p, nil
}

// begin begins a call.
func (p *program) begin(what string) error {
	if err := p.s.begin(what); err != nil {
		return err
	}
	if p.closed {
		p.c.g.mu.Unlock()
		return p.c.d.misuse("%s of a closed program", what)
	}
	return nil
}

func (p *program) Bind(slot, size int, in, out []cuda.Ptr) error {
	if err := p.begin("Bind"); err != nil {
		return err
	}
	defer p.c.g.mu.Unlock()
	key := [2]int{slot, size}
	switch {
	case !slices.Contains(p.m.Sizes, size):
		return p.c.d.misuse("Bind of %s for %d, which is none of its sizes %v", p.m.Spec.Key(), size, p.m.Sizes)
	case p.bound[key] != nil:
		return p.c.d.misuse("Bind of %s a second time, slot %d, size %d", p.m.Spec.Key(), slot, size)
	}
	b := &binding{kernel: p.kernel, size: size}
	var err error
	if b.in, err = p.place(b, p.m.Spec.Inputs, in, false); err != nil {
		return err
	}
	if b.out, err = p.place(b, p.m.Spec.Outputs, out, true); err != nil {
		return err
	}
	if p.memory != nil {
		b.spans = append(b.spans, span{b: p.memory, to: len(p.memory.mem)})
	}
	if p.kernel.Time != nil {
		b.length = p.kernel.Time(size)
	}
	p.bound[key] = b
	return nil
}

// place finds the memory of a binding's tensors. The lock is held.
func (p *program) place(b *binding, specs []catalog.TensorSpec, at []cuda.Ptr, write bool) ([][]byte, error) {
	if len(at) != len(specs) {
		return nil, p.c.d.misuse("Bind of %s with %d tensors where it has %d", p.m.Spec.Key(), len(at), len(specs))
	}
	var all [][]byte
	for i, s := range specs {
		m, err := p.c.p.span(at[i], b.size*int(s.ByteSize()), write)
		if err != nil {
			return nil, fmt.Errorf("%s, tensor %s: %w", p.m.Spec.Key(), s.Name, err)
		}
		b.spans = append(b.spans, m)
		all = append(all, m.b.mem[m.from:m.to:m.to])
	}
	return all, nil
}

func (p *program) Run(slot, size int) error {
	if err := p.begin("Run"); err != nil {
		return err
	}
	defer p.c.g.mu.Unlock()
	b := p.bound[[2]int{slot, size}]
	if b == nil {
		return p.c.d.misuse("Run of %s without Bind, slot %d, size %d", p.m.Spec.Key(), slot, size)
	}
	for _, m := range b.spans {
		if p.c.p.find(m.b.at, 1) != m.b {
			return p.c.d.misuse("Run of %s on memory that was freed", p.m.Spec.Key())
		}
	}
	if err := p.r.next(&p.r.runs); err != nil {
		return err
	}
	p.s.push(work{kind: doRun, run: b})
	return nil
}

// Memory implements cuda.Program: by how much less was free after loading.
func (p *program) Memory() int64 { return p.kernel.Memory + p.beside }

func (p *program) Close() error {
	if err := p.c.beginClose("Close of a program"); err != nil {
		return err
	}
	defer p.c.g.mu.Unlock()
	lost := p.c.p.lost
	switch {
	case p.closed:
		return p.c.d.misuse("Close of a closed program")
	case p.memory != nil && p.memory.uses > 0 && lost == nil:
		return p.c.d.misuse("Close of %s while a run of it is queued", p.m.Spec.Key())
	}
	p.closed = true
	p.c.open.Programs--
	if p.memory != nil {
		p.c.p.free(p.memory)
	}
	return lost
}
