package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ErrLimit is the cause when a document has more in it than it may.
var ErrLimit = errors.New("document beyond its limits")

// Limits of what stands in a document, beside the bytes that its link lets pass
// (transport.Limiter): what three bytes of JSON make can take a hundred times that in
// memory. What has none here takes a few times its bytes.
const (
	ModelsMax   = 4096    // of one document
	PoolsMax    = 256     // of a backend, and sub-clusters
	TensorsMax  = 64      // inputs or outputs of a model
	HeldMax     = 1 << 17 // models on the devices of a backend's paged pools, and those devices
	tensorsAll  = 1 << 16
	dimsMax     = 16
	batchMax    = 1024    // sizes of a measured profile
	devicesMax  = 4096    // of a pool
	labelsMax   = 1 << 18 // of a model
	elementMax  = 1 << 28 // of a tensor: what a frame can carry
	nestingMax  = 16
	versionsMax = 256 // of a model's name
)

// DecodeFrontendInfo reads a frontend's first message.
func DecodeFrontendInfo(data []byte) (FrontendInfo, error) {
	return decode[FrontendInfo](data, "FrontendInfo", nil)
}

// DecodeBackendInfo reads a backend's first message.
func DecodeBackendInfo(data []byte) (BackendInfo, error) {
	return decode(data, "BackendInfo", func(b *BackendInfo) (err error) {
		for i := range b.Pools {
			err = errors.Join(err, b.Pools[i].checkPaged())
			for k := range b.Pools[i].Brought {
				err = errors.Join(err, b.Pools[i].Brought[k].Check())
			}
		}
		return err
	})
}

// DecodeModels reads a model list.
func DecodeModels(data []byte) (ModelList, error) {
	return decode(data, "model list", func(l *ModelList) (err error) {
		for i := range l.Models {
			err = errors.Join(err, l.Models[i].CheckTensors())
		}
		return err
	})
}

// DecodeLabels reads a model's labels.
func DecodeLabels(data []byte) ([]string, error) { return decode[[]string](data, "labels", nil) }

// DecodeWant reads a question for a document.
func DecodeWant(data []byte) (Want, error) { return decode[Want](data, "Want", nil) }

// DecodeBound reads the ids of a pool's models.
func DecodeBound(data []byte) (Bound, error) { return decode[Bound](data, "Bound", nil) }

// DecodeService reads what became of a device.
func DecodeService(data []byte) (Service, error) { return decode[Service](data, "Service", nil) }

// DecodeKeep reads what a device shall have.
func DecodeKeep(data []byte) (Keep, error) { return decode[Keep](data, "Keep", nil) }

// DecodeStock reads what became of a pool's models.
func DecodeStock(data []byte) (Stock, error) {
	return decode(data, "Stock", func(s *Stock) (err error) {
		for i := range s.Models {
			if spec := s.Models[i].Spec; spec != nil {
				err = errors.Join(err, spec.CheckTensors())
			}
			err = errors.Join(err, s.Models[i].Files.Check())
		}
		return err
	})
}

// DecodeHeld reads what a device of a paged pool holds.
func DecodeHeld(data []byte) (Held, error) {
	return decode(data, "Held", func(h *Held) error { return checkHeld(h.Models) })
}

// DecodeOrder reads a step of the control plane's.
func DecodeOrder(data []byte) (Order, error) { return decode[Order](data, "Order", nil) }

// DecodeOutcome reads what came of one.
func DecodeOutcome(data []byte) (Outcome, error) { return decode[Outcome](data, "Outcome", nil) }

// DecodeFacts reads what became of a scheduler's world.
func DecodeFacts(data []byte) (Facts, error) { return decode[Facts](data, "Facts", nil) }

// DecodeAdmitted reads the scheduler's reply.
func DecodeAdmitted(data []byte) (Admitted, error) { return decode[Admitted](data, "Admitted", nil) }

// DecodeChanges reads what became of the catalogue.
func DecodeChanges(data []byte) (Changes, error) {
	return decode(data, "Changes", func(c *Changes) (err error) {
		for i := range c.Models {
			err = errors.Join(err, c.Models[i].Spec.CheckTensors())
		}
		return err
	})
}

// decode reads a document of any type of this package's. check may be nil.
func decode[T any](data []byte, name string, check func(*T) error) (v T, err error) {
	if err = Weigh(data); err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err == nil && check != nil {
		err = check(&v)
	}
	if err != nil {
		var none T
		return none, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

// CheckTensors refuses tensors that no request could bring: of types that are none, with
// dimensions below 1, or larger than a frame.
func (m *ModelSpec) CheckTensors() error {
	for _, side := range [][]TensorSpec{m.Inputs, m.Outputs} {
		for i := range side {
			if err := side[i].check(); err != nil {
				return fmt.Errorf("model %s: tensor %q: %w", m.Key(), side[i].Name, err)
			}
		}
	}
	return nil
}

func (s *TensorSpec) check() error {
	size := s.Type.Size()
	if size < 0 {
		return fmt.Errorf("type %q is none of the Open Inference Protocol's", s.Type)
	}
	n := int64(max(1, size))
	for _, d := range s.Shape {
		if d < 1 {
			return fmt.Errorf("shape %v: dimensions must be at least 1", s.Shape)
		}
		if d > elementMax/n {
			return fmt.Errorf("%w: shape %v has more than %d bytes", ErrLimit, s.Shape, elementMax)
		}
		n *= d
	}
	return nil
}
