package grpcin

import (
	"context"
	"fmt"

	"google.golang.org/grpc/peer"

	"github.com/symphony-serving/symphony/frontend/grpcin/inference"
	"github.com/symphony-serving/symphony/frontend/ingress/oip"
	"github.com/symphony-serving/symphony/frontend/regions"
)

// shared refuses shared memory to clients on other hosts.
func (s *Server) shared(ctx context.Context) error {
	p, ok := peer.FromContext(ctx)
	return s.cfg.Web.NoSharedMemory(ok && regions.SameHost(p.LocalAddr, p.Addr))
}

// shared checks what a request says of an input in shared memory that has size bytes.
func (t *input) shared(i, size int) error {
	switch {
	case t.contented:
		return oip.Errorf(oip.Field("inputs", i, "contents"), "given, and shared memory as well: one of them")
	case !t.region.sized:
		return oip.Errorf(oip.Field("inputs", i, "parameters.shared_memory_byte_size"), "missing")
	case t.region.size != uint64(size):
		return oip.Errorf(oip.Field("inputs", i, "parameters.shared_memory_byte_size"), "%d bytes, its shape %v of %s takes %d", t.region.size, t.shape, t.datatype, size)
	}
	return nil
}

// reachable checks before anything runs that what lies in shared memory may be used, and that there is
// room for the outputs that are wanted there.
func (s *Server) reachable(ctx context.Context, q *request, b batch) error {
	used := false
	for i := range q.inputs {
		used = used || q.inputs[i].region.name != nil
	}
	for i := range q.wanted {
		used = used || q.wanted[i].region != nil
	}
	if !used {
		return nil
	}
	if err := s.shared(ctx); err != nil {
		return err
	}
	for i := range q.inputs {
		if g := &q.inputs[i].region; g.name != nil { // before memory is taken for it
			if err := s.cfg.Web.Regions().Check(string(g.name), g.offset, int(g.size)); err != nil {
				return err
			}
		}
	}
	for i := range q.wanted {
		w := &q.wanted[i]
		if w.region == nil {
			continue
		}
		if need := b.items * int(w.spec.ByteSize()); w.classes == 0 && w.region.size < uint64(need) {
			return w.tooSmall(need)
		}
		if err := s.cfg.Web.Regions().Check(string(w.region.name), w.region.offset, int(w.region.size)); err != nil {
			return err
		}
	}
	return nil
}

func (w *wanted) tooSmall(need int) error {
	return oip.Errorf("", "shared memory size specified with the request for output '%s' (%d bytes) should be at least %d bytes to hold the results", w.spec.Name, w.region.size, need)
}

// deposit writes the outputs that are wanted in shared memory.
func (s *Server) deposit(q *request) error {
	for i := range q.wanted {
		w := &q.wanted[i]
		if w.region == nil {
			continue
		}
		var parts [][]byte
		if w.classes > 0 {
			parts = append(parts, q.ranked(w))
		}
		for _, a := range q.answers {
			t := pick(a.Outputs, w)
			if t == nil {
				return fmt.Errorf("the backend sent no output %q", w.spec.Name)
			}
			if w.classes == 0 {
				parts = append(parts, t.Data)
			}
		}
		for _, p := range parts {
			if uint64(w.written+len(p)) > w.region.size {
				return w.tooSmall(w.written + len(p))
			}
			if err := s.cfg.Web.Regions().Write(string(w.region.name), w.region.offset+uint64(w.written), p); err != nil {
				return err
			}
			w.written += len(p)
		}
	}
	return nil
}

// SystemSharedMemoryRegister makes a piece of a shared memory object usable.
func (s *Server) SystemSharedMemoryRegister(ctx context.Context, q *inference.SystemSharedMemoryRegisterRequest) (*inference.SystemSharedMemoryRegisterResponse, error) {
	err := apart(s.cfg.AdminApart)
	if err == nil {
		err = s.shared(ctx)
	}
	if err == nil {
		err = s.cfg.Web.Regions().Register(regions.Region{Name: q.GetName(), Key: q.GetKey(), Offset: q.GetOffset(), Size: q.GetByteSize()})
	}
	if err != nil {
		return nil, s.status("", "", err)
	}
	return &inference.SystemSharedMemoryRegisterResponse{}, nil
}

// SystemSharedMemoryUnregister forgets a region; without a name all.
func (s *Server) SystemSharedMemoryUnregister(ctx context.Context, q *inference.SystemSharedMemoryUnregisterRequest) (*inference.SystemSharedMemoryUnregisterResponse, error) {
	if err := apart(s.cfg.AdminApart); err != nil {
		return nil, err
	}
	if all := s.cfg.Web.Regions(); all != nil {
		if err := s.shared(ctx); err != nil {
			return nil, s.status("", "", err)
		}
		all.Unregister(q.GetName())
	}
	return &inference.SystemSharedMemoryUnregisterResponse{}, nil
}

// SystemSharedMemoryStatus lists the regions.
func (s *Server) SystemSharedMemoryStatus(_ context.Context, q *inference.SystemSharedMemoryStatusRequest) (*inference.SystemSharedMemoryStatusResponse, error) {
	if err := apart(s.cfg.AdminApart); err != nil {
		return nil, err
	}
	m := &inference.SystemSharedMemoryStatusResponse{Regions: map[string]*inference.SystemSharedMemoryStatusResponse_RegionStatus{}}
	all := s.cfg.Web.Regions()
	if all == nil {
		return m, nil
	}
	list, err := all.List(q.GetName())
	if err != nil {
		return nil, s.status("", "", err)
	}
	for _, g := range list {
		m.Regions[g.Name] = &inference.SystemSharedMemoryStatusResponse_RegionStatus{Name: g.Name, Key: g.Key, Offset: g.Offset, ByteSize: g.Size}
	}
	return m, nil
}

// CudaSharedMemoryStatus lists none: GPUs' memory is not shared.
func (s *Server) CudaSharedMemoryStatus(context.Context, *inference.CudaSharedMemoryStatusRequest) (*inference.CudaSharedMemoryStatusResponse, error) {
	return &inference.CudaSharedMemoryStatusResponse{}, apart(s.cfg.AdminApart)
}

// CudaSharedMemoryUnregister has nothing to forget; clients call it when they begin.
func (s *Server) CudaSharedMemoryUnregister(context.Context, *inference.CudaSharedMemoryUnregisterRequest) (*inference.CudaSharedMemoryUnregisterResponse, error) {
	return &inference.CudaSharedMemoryUnregisterResponse{}, apart(s.cfg.AdminApart)
}
