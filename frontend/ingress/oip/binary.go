package oip

// cutBinary gives each input with a binary_data_size its bytes, in the order
// of the inputs, and checks that they are all of them and fit the shapes.
func (r *Request) cutBinary(rest []byte) error {
	for i := range r.Inputs {
		t := &r.Inputs[i]
		if t.size < 0 {
			continue
		}
		if rest == nil {
			return Errorf(Field("inputs", i, "parameters.binary_data_size"),
				"%d bytes announced, but the header Inference-Header-Content-Length is missing", t.size)
		}
		if t.size > int64(len(rest)) {
			return Errorf(Field("inputs", i, "parameters.binary_data_size"),
				"%d bytes announced, the body has only %d more", t.size, len(rest))
		}
		t.Binary = rest[:t.size:t.size]
		rest = rest[t.size:]
		if err := t.checkBinary(i); err != nil {
			return err
		}
	}
	if len(rest) > 0 {
		return Errorf("inputs", "the body has %d bytes more than its binary tensors (binary_data_size) account for", len(rest))
	}
	return nil
}

func (t *Input) checkBinary(i int) error {
	elements, _ := Elements(t.Shape) // complete checked for overflow
	if size := int64(t.Type.Size()); t.size/size != elements || t.size%size != 0 {
		return Errorf(Field("inputs", i, "parameters.binary_data_size"),
			"%d bytes, its shape %v of %s takes %d elements of %d", t.size, t.Shape, t.Type, elements, size)
	}
	return nil
}
