//go:build cgo

package onnxrt

// #include "keep.h"
import "C"

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	ort "github.com/yalue/onnxruntime_go"
)

// Sessions that come and go take as much memory each time. From the system it comes in pages that are cleared one by one, which is half of the
// time that a session takes. So an allocator of ours (keep.c) keeps the blocks of sessions that ended for those that come. ONNX Runtime has
// an arena for that, too (CreateAndRegisterAllocator); but weights, and their arrangement, go past it.
//
// onnxruntime_go's RegisterAllocator takes a type of its own C header, which only it can name: hence reflect.

// Pool is memory in blocks of 1 MiB and more; smaller ones are malloc's.
type Pool struct {
	Used, Kept    int64 // bytes
	Taken, Mapped int64 // blocks that were kept and taken again; blocks that came from the system
}

type keepers struct {
	mu         sync.Mutex // Guards what follows.
	registered bool       // the allocator is, for the process's life
	users      int
	most       int64
}

var keeping keepers

// Keep begins to keep memory of sessions that SessionKeeps, for one user more: nothing of weights until KeepMore, and what runs need, as much as
// they needed at a time. Each is ended by a KeepNot.
func Keep() error {
	k := &keeping
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.registered {
		if err := register(); err != nil {
			return fmt.Errorf("an allocator for sessions: %w", err)
		}
		k.registered = true
	}
	k.users++
	k.tell()
	return nil
}

// KeepMore changes by how many bytes may be kept of weights that no session uses.
func KeepMore(bytes int64) {
	k := &keeping
	k.mu.Lock()
	defer k.mu.Unlock()
	k.most += bytes
	k.tell()
}

// KeepNot ends one user's keeping; with the last one's all goes back. What it changed by KeepMore it takes back before.
func KeepNot() {
	k := &keeping
	k.mu.Lock()
	defer k.mu.Unlock()
	k.users--
	k.tell()
}

// tell has the allocator know; keeping.mu is held.
func (k *keepers) tell() {
	on := C.int(0)
	if k.users > 0 {
		on = 1
	}
	C.sym_keep_most(C.size_t(max(0, k.most)), on)
}

func register() error {
	place, err := ort.NewMemoryInfo("Cpu", ort.AllocatorTypeDevice, 0, ort.MemTypeDefault)
	if err != nil {
		return err
	}
	handle, err := handleOf(place, "o") // kept: the allocator is for the process's life
	if err != nil {
		return err
	}
	f := reflect.ValueOf(ort.RegisterAllocator)
	if t := f.Type(); t.NumIn() != 1 || t.In(0).Kind() != reflect.Pointer || t.In(0).Elem().Size() != unsafe.Sizeof(C.struct_sym_allocator{}) {
		return fmt.Errorf("%w (RegisterAllocator takes %v)", ErrVersion, t)
	}
	allocator := reflect.NewAt(f.Type().In(0).Elem(), unsafe.Pointer(C.sym_keep(handle)))
	err, _ = f.Call([]reflect.Value{allocator})[0].Interface().(error)
	return err
}

// SessionKeeps has a session take its memory from that allocator, once Keep has been called, and its weights as such.
func SessionKeeps(o *ort.SessionOptions) error {
	return errors.Join(
		o.AddSessionConfigEntry("session.use_env_allocators", "1"),
		o.AddSessionConfigEntry("session.use_device_allocator_for_initializers", "1"))
}

// Trim gives back what is kept.
func Trim() { C.sym_keep_trim() }

// Pools are those of weights, and of what runs need.
func Pools() (weights, runs Pool) {
	var w, r C.struct_sym_pool
	C.sym_keep_state(&w, &r)
	return poolOf(&w), poolOf(&r)
}

func poolOf(p *C.struct_sym_pool) Pool {
	return Pool{Used: int64(p.used), Kept: int64(p.kept), Taken: int64(p.taken), Mapped: int64(p.mapped)}
}
