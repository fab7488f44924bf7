package highs

import (
	"context"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// What highs.wasm asks of its surroundings. In a browser highs.js answers; here there is a clock and a memory that grows, and
// no file is there.

const (
	errnoNoEntry = -2 // of a system call: no such file
	errnoBadFile = 8  // of WASI: not an open file
	page         = 64 << 10
)

// imported is one function that the module imports, under the name that the compiler left of it.
type imported struct {
	name            string
	params, results []api.ValueType
	do              func(m api.Module, stack []uint64)
}

// imports defines them all.
func imports(ctx context.Context, r wazero.Runtime) error {
	b := r.NewHostModuleBuilder(importModule)
	for _, f := range append(ends(), append(clocks(), files()...)...) {
		b = b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, stack []uint64) { f.do(m, stack) }), f.params, f.results).Export(f.name)
	}
	_, err := b.Instantiate(ctx)
	return err
}

const (
	i32 = api.ValueTypeI32
	i64 = api.ValueTypeI64
	f64 = api.ValueTypeF64
)

func types(t ...api.ValueType) []api.ValueType { return t }

// ends are ways of the module to give up. wazero makes an error of the panic.
func ends() []imported {
	giveUp := func(why string) func(api.Module, []uint64) {
		return func(api.Module, []uint64) { panic("highs.wasm gave up: " + why) }
	}
	return []imported{
		{"a", types(i32, i32, i32), nil, giveUp("an exception")}, // __cxa_throw
		{"b", types(i32), nil, giveUp("exit")},
		{"k", nil, nil, giveUp("abort")},
		{"r", types(i32), nil, giveUp("proc_exit")},
		{"s", nil, nil, func(api.Module, []uint64) {}}, // runtime_keepalive_clear
	}
}

// clocks, and the memory.
func clocks() []imported {
	begin := time.Now()
	return []imported{
		{"c", nil, types(f64), func(_ api.Module, s []uint64) { s[0] = api.EncodeF64(float64(time.Since(begin)) / 1e6) }}, // get_now, ms
		{"j", nil, types(f64), func(_ api.Module, s []uint64) { s[0] = api.EncodeF64(float64(time.Now().UnixMilli())) }},  // date_now
		{"p", types(i32, i64, i32), types(i32), func(m api.Module, s []uint64) { // clock_time_get
			m.Memory().WriteUint64Le(uint32(s[2]), uint64(time.Now().UnixNano()))
			s[0] = 0
		}},
		{"l", types(i32, f64), types(i32), func(_ api.Module, s []uint64) { s[0] = 0 }}, // setitimer: none is ever due
		{"m", types(i32, i32, i32, i32), nil, func(m api.Module, s []uint64) { // tzset: UTC
			m.Memory().WriteUint32Le(uint32(s[0]), 0)
			m.Memory().WriteUint32Le(uint32(s[1]), 0)
			m.Memory().Write(uint32(s[2]), []byte("UTC\x00"))
			m.Memory().Write(uint32(s[3]), []byte("UTC\x00"))
		}},
		{"q", types(i32), types(i32), grow}, // resize_heap
	}
}

// grow makes the memory as large as is asked for, within its bound.
func grow(m api.Module, s []uint64) {
	want, have := uint64(uint32(s[0])), uint64(m.Memory().Size())
	s[0] = 1
	if want > have {
		more := max((want-have+page-1)/page, min(have/page/5, memoryMost-min(memoryMost, have/page)))
		if _, ok := m.Memory().Grow(uint32(more)); !ok {
			if _, ok = m.Memory().Grow(uint32((want - have + page - 1) / page)); !ok {
				s[0] = 0
			}
		}
	}
}

// files: none is there, and what is written to standard output is dropped.
func files() []imported {
	fails := func(errno int32) func(api.Module, []uint64) {
		return func(_ api.Module, s []uint64) { s[0] = api.EncodeI32(errno) }
	}
	return []imported{
		{"e", types(i32, i32, i32), types(i32), fails(errnoNoEntry)},      // fcntl
		{"h", types(i32, i32, i32), types(i32), fails(errnoNoEntry)},      // ioctl
		{"i", types(i32, i32, i32, i32), types(i32), fails(errnoNoEntry)}, // openat
		{"d", types(i32), types(i32), fails(0)},                           // fd_close
		{"g", types(i32, i32, i32, i32), types(i32), fails(errnoBadFile)}, // fd_read
		{"t", types(i32, i64, i32, i32), types(i32), fails(errnoBadFile)}, // fd_seek
		{"f", types(i32, i32, i32, i32), types(i32), written},             // fd_write
		{"n", types(i32, i32), types(i32), fails(0)},                      // environ_get
		{"o", types(i32, i32), types(i32), func(m api.Module, s []uint64) { // environ_sizes_get
			m.Memory().WriteUint32Le(uint32(s[0]), 0)
			m.Memory().WriteUint32Le(uint32(s[1]), 0)
			s[0] = 0
		}},
	}
}

// written says that all of it was.
func written(m api.Module, s []uint64) {
	vectors, count, sum := uint32(s[1]), uint32(s[2]), uint32(0)
	for k := range count {
		n, ok := m.Memory().ReadUint32Le(vectors + 8*k + 4)
		if !ok {
			break
		}
		sum += n
	}
	m.Memory().WriteUint32Le(uint32(s[3]), sum)
	s[0] = 0
}
