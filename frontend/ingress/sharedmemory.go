package ingress

import (
	"encoding/json"
	"net/url"
	"slices"

	"github.com/symphony-serving/symphony/frontend/ingress/oip"
	"github.com/symphony-serving/symphony/frontend/regions"
)

// NoSharedMemory is why a client cannot use shared memory; nil: it can. sameHost: it is on this host
// (regions.SameHost).
func (s *Server) NoSharedMemory(sameHost bool) error {
	switch {
	case s.regions == nil:
		return unsupported("shared memory is not served here: send tensors in the body, or have the server started with frontend.shared_memory: true")
	case !sameHost:
		return unsupported("shared memory is for clients on the server's host: send tensors in the body")
	}
	return nil
}

// shared refuses clients on other hosts.
func (s *Server) shared(x *exchange) error {
	return s.NoSharedMemory(regions.SameHost(x.ctx.LocalAddr(), x.ctx.RemoteAddr()))
}

// regionName is the path's; "": it has none.
func (x *exchange) regionName() (string, error) {
	name, err := url.PathUnescape(string(x.region))
	if err != nil {
		return "", badRequest("path: %v", err)
	}
	return name, nil
}

// regionsStatus serves the list of regions, or one of it.
func (s *Server) regionsStatus(x *exchange) error {
	if s.regions == nil {
		return s.noRegions(x)
	}
	name, err := x.regionName()
	if err != nil {
		return err
	}
	list, err := s.regions.List(name)
	if err != nil {
		return err
	}
	out := make([]object, 0, len(list))
	for _, g := range list {
		out = append(out, object{"name": g.Name, "key": g.Key, "offset": g.Offset, "byte_size": g.Size})
	}
	return x.json(200, out)
}

// registerRegion reads {"key": TEXT, "offset": N, "byte_size": N}.
func (s *Server) registerRegion(x *exchange) error {
	if err := s.shared(x); err != nil {
		return err
	}
	body, err := s.body(x)
	if err != nil {
		return err
	}
	if len(body) > orderMax {
		return badRequest("the body is above %d bytes", orderMax)
	}
	var of struct {
		Key    *string `json:"key"`
		Offset uint64  `json:"offset"`
		Size   *uint64 `json:"byte_size"`
	}
	if err := json.Unmarshal(body, &of); err != nil {
		return badRequest("the body: %v", err)
	}
	if of.Key == nil || of.Size == nil {
		return badRequest("the body must have key and byte_size")
	}
	name, err := x.regionName()
	if err == nil {
		err = s.regions.Register(regions.Region{Name: name, Key: *of.Key, Offset: of.Offset, Size: *of.Size})
	}
	if err != nil {
		return err
	}
	return s.nothing(x)
}

// unregisterRegion forgets the path's region, or all.
func (s *Server) unregisterRegion(x *exchange) error {
	name, err := x.regionName()
	if err != nil {
		return err
	}
	if s.regions != nil {
		if err := s.shared(x); err != nil {
			return err
		}
		s.regions.Unregister(name)
	}
	return s.nothing(x)
}

// fetch appends an input's size bytes from shared memory to the scratch.
func (s *Server) fetch(x *exchange, t *oip.Input, i, size int) error {
	if err := s.shared(x); err != nil {
		return err
	}
	if t.Region.Size != int64(size) {
		return oip.Errorf(oip.Field("inputs", i, "parameters.shared_memory_byte_size"), "%d bytes, its shape %v of %s takes %d", t.Region.Size, t.Shape, t.Type, size)
	}
	from := len(x.scratch)
	x.scratch = slices.Grow(x.scratch, size)[:from+size]
	return s.regions.Read(string(t.Region.Name), uint64(t.Region.Offset), x.scratch[from:])
}

// reachable checks before anything runs that outputs can be written to where they are wanted.
func (s *Server) reachable(x *exchange, b batch) error {
	for i := range x.wanted {
		w := &x.wanted[i]
		if w.region == nil {
			continue
		}
		if err := s.shared(x); err != nil {
			return err
		}
		if need := int64(b.items) * w.spec.ByteSize(); w.classes == 0 && w.region.Size < need {
			return tooSmall(w, need)
		}
		if err := s.regions.Check(string(w.region.Name), uint64(w.region.Offset), int(w.region.Size)); err != nil {
			return err
		}
	}
	return nil
}

func tooSmall(w *wanted, need int64) error {
	return badRequest("shared memory size specified with the request for output '%s' (%d bytes) should be at least %d bytes to hold the results", w.spec.Name, w.region.Size, need)
}

// elsewhere reports whether any output is wanted in shared memory.
func (x *exchange) elsewhere() bool {
	return slices.ContainsFunc(x.wanted, func(w wanted) bool { return w.region != nil })
}

// deposit writes the outputs that are wanted in shared memory.
func (s *Server) deposit(x *exchange) error {
	for i := range x.wanted {
		w, out := &x.wanted[i], &x.reply.Outputs[i]
		if w.region == nil {
			continue
		}
		if size := int64(out.Size()); size > w.region.Size {
			return tooSmall(w, size)
		}
		at := uint64(w.region.Offset)
		for _, p := range out.Parts {
			if err := s.regions.Write(string(w.region.Name), at, p); err != nil {
				return err
			}
			at += uint64(len(p))
		}
	}
	return nil
}
