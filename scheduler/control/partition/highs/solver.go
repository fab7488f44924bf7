package highs

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed" // the module
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/symphony-serving/symphony/scheduler/control/partition"
	"github.com/symphony-serving/symphony/transport/mono"
)

//go:embed highs.wasm.gz
var module []byte

// Errors of Solve.
var (
	// ErrTooLarge: the program has more assignments than memory is set aside for.
	ErrTooLarge = errors.New("problem is too large for the MILP solver")
	// ErrOverdue: HiGHS did not end at its time limit, and was cut off.
	ErrOverdue = errors.New("the MILP solver did not end in time and was cut off")
)

const (
	// cellsMost is models times sub-clusters: 10,000 on 32.
	cellsMost = 320_000
	// memoryMost is of the module's memory, in pages of 64 KiB: 1 GiB.
	memoryMost = 16_384
)

// Solver solves one problem after the other. One goroutine uses it.
type Solver struct {
	ctx   context.Context // ends a Solve early
	cache wazero.CompilationCache
}

// New makes a solver; when ctx ends, so does Solve.
func New(ctx context.Context) *Solver {
	return &Solver{ctx: ctx, cache: wazero.NewCompilationCache()}
}

// Prepare compiles the module, so that no Solve has to within its limit.
func (s *Solver) Prepare() error {
	m, err := s.start(s.ctx)
	if err == nil {
		m.close()
	}
	return err
}

// Close frees the compiled module.
func (s *Solver) Close() error { return s.cache.Close(context.Background()) }

// Solve implements partition.Solver for the paper's objective. nil: HiGHS has nothing that it calls a solution. Without an
// incumbent it begins from nothing.
func (s *Solver) Solve(p *partition.Problem, incumbent []int, limit mono.Dur) ([]int, error) {
	if p.Objective != partition.Balance {
		return nil, errors.New("the MILP solver knows the objective balance only")
	}
	if cells := len(p.Models) * p.SubClusters; cells > cellsMost {
		return nil, fmt.Errorf("%w: %d models on %d sub-clusters, at most %d assignments", ErrTooLarge, len(p.Models), p.SubClusters, cellsMost)
	}
	if err := s.ctx.Err(); err != nil {
		return nil, err // before seconds of compiling
	}
	deadline := time.Now().Add(time.Duration(limit))
	ctx, cancel := context.WithDeadline(s.ctx, deadline)
	defer cancel()
	m, err := s.start(ctx)
	if err != nil {
		return nil, s.ended(ctx, err)
	}
	defer m.close()
	of, err := m.solve(ctx, newProgram(p, incumbent), p, incumbent, deadline)
	return of, s.ended(ctx, err)
}

// ended says why a call into the module failed, where it was we who ended it.
func (s *Solver) ended(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case s.ctx.Err() != nil:
		return s.ctx.Err()
	case ctx.Err() != nil:
		return ErrOverdue
	}
	return err
}

// machine is a module that runs: one for each Solve, so that nothing is left of the one before.
type machine struct {
	runtime wazero.Runtime
	mod     api.Module
	ctx     context.Context
	err     error // the first
}

func (s *Solver) start(ctx context.Context) (*machine, error) {
	wasm, err := unpacked()
	if err != nil {
		return nil, err
	}
	config := wazero.NewRuntimeConfig().WithCompilationCache(s.cache).WithCloseOnContextDone(true).WithMemoryLimitPages(memoryMost)
	m := &machine{runtime: wazero.NewRuntimeWithConfig(ctx, config), ctx: ctx}
	if err := imports(ctx, m.runtime); err != nil {
		m.close()
		return nil, err
	}
	code, err := m.runtime.CompileModule(ctx, wasm) // never closed: that would take it out of the cache
	if err == nil {
		m.mod, err = m.runtime.InstantiateModule(ctx, code, wazero.NewModuleConfig().WithStartFunctions())
	}
	if err != nil {
		m.close()
		return nil, fmt.Errorf("highs.wasm: %w", err)
	}
	m.call(fnInit)
	if m.err != nil {
		m.close()
		return nil, m.err
	}
	return m, nil
}

// close ends the module; the compiled code stays in the cache.
func (m *machine) close() { m.runtime.Close(context.Background()) }

func unpacked() ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(module))
	if err != nil {
		return nil, fmt.Errorf("highs.wasm: %w", err)
	}
	return io.ReadAll(r)
}

// solve passes the program and the incumbent, runs, and reads what came out.
func (m *machine) solve(ctx context.Context, g *program, p *partition.Problem, incumbent []int, deadline time.Time) ([]int, error) {
	h := m.call(fnCreate)
	m.option(fnSetBool, h, "output_flag", 0)
	m.option(fnSetDouble, h, "mip_rel_gap", api.EncodeF64(0))
	start := make([]float64, len(g.cost))
	if incumbent != nil {
		start = g.columnsOf(p, incumbent)
	}
	m.call(fnPassMIP, h, uint64(len(g.cost)), uint64(len(g.rowLow)), uint64(len(g.index)), rowwise, minimise, api.EncodeF64(0),
		m.doubles(g.cost), m.doubles(g.lower), m.doubles(g.upper), m.doubles(g.rowLow), m.doubles(g.rowHigh),
		m.ints(g.start), m.ints(g.index), m.doubles(g.value), m.ints(g.integer))
	out := m.doubles(start)
	if incumbent != nil {
		m.call(fnSetSolved, h, out, 0, 0, 0)
	}
	m.option(fnSetDouble, h, "time_limit", api.EncodeF64(limitShare*time.Until(deadline).Seconds()))
	m.call(fnRun, h)
	m.call(fnGetSolved, h, out, 0, 0, 0)
	values := m.read(out, len(start))
	if m.err != nil {
		return nil, m.err
	}
	of, ok := g.assignment(values)
	if !ok {
		return nil, nil
	}
	return of, nil
}

const (
	rowwise    = 2
	minimise   = 1
	limitShare = 0.8 // of what is left: so that it ends by itself, with its result
)

// call calls an exported function; after the first failure it does nothing.
func (m *machine) call(name string, args ...uint64) uint64 {
	if m.err != nil {
		return 0
	}
	f := m.mod.ExportedFunction(name)
	if f == nil {
		m.err = fmt.Errorf("highs.wasm has no function %q", name)
		return 0
	}
	out, err := f.Call(m.ctx, args...)
	if err != nil {
		m.err = fmt.Errorf("highs.wasm: %w", err)
		return 0
	}
	if len(out) == 0 {
		return 0
	}
	return out[0]
}

func (m *machine) option(set string, h uint64, name string, value uint64) {
	m.call(set, h, m.put(append([]byte(name), 0)), value)
}

// put copies bytes into the module's memory. Nothing is freed: the module ends with the Solve.
func (m *machine) put(b []byte) uint64 {
	at := m.call(fnMalloc, uint64(max(8, len(b))))
	if m.err == nil && (at == 0 || !m.mod.Memory().Write(uint32(at), b)) {
		m.err = fmt.Errorf("%w: its memory is full", ErrTooLarge)
	}
	return at
}

func (m *machine) doubles(v []float64) uint64 {
	b := make([]byte, 0, 8*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return m.put(b)
}

func (m *machine) ints(v []int32) uint64 {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return m.put(b)
}

func (m *machine) read(at uint64, n int) []float64 {
	if m.err != nil {
		return nil
	}
	b, ok := m.mod.Memory().Read(uint32(at), uint32(8*n))
	if !ok {
		m.err = errors.New("highs.wasm: its result lies outside of its memory")
		return nil
	}
	v := make([]float64, n)
	for k := range v {
		v[k] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*k:]))
	}
	return v
}
