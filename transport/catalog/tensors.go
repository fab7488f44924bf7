package catalog

import "slices"

// SameTensors reports whether what is made for m is what other takes, and what other makes is
// what is read as m's.
func (m *ModelSpec) SameTensors(other *ModelSpec) bool {
	return slices.EqualFunc(m.Inputs, other.Inputs, sameTensor) && slices.EqualFunc(m.Outputs, other.Outputs, sameTensor)
}

func sameTensor(a, b TensorSpec) bool {
	return a.Name == b.Name && a.Type == b.Type && slices.Equal(a.Shape, b.Shape)
}

// SameImages reports whether both make the same tensor of an image.
func (m *ModelSpec) SameImages(other *ModelSpec) bool {
	a, b := m.Image, other.Image
	if a == nil || b == nil {
		return a == b
	}
	return a.Layout == b.Layout && a.Channels == b.Channels && a.Resize == b.Resize && a.Scale == b.Scale && a.Invert == b.Invert &&
		slices.Equal(a.Mean, b.Mean) && slices.Equal(a.Std, b.Std)
}

// InputBytes is the size of one item's inputs, without those whose size varies (BYTES).
func (m *ModelSpec) InputBytes() int {
	n := 0
	for _, t := range m.Inputs {
		n += int(max(0, t.ByteSize()))
	}
	return n
}
