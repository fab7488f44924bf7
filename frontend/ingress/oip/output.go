package oip

// output reads one entry of outputs.
func (r *Request) output(s *scanner, i int) error {
	s.at = place{section: "outputs", index: i, element: -1}
	if i >= TensorsMax {
		return s.fail("more than %d outputs", TensorsMax)
	}
	var o Output
	if err := s.object(func(key []byte) error { return o.field(s, i, key) }); err != nil {
		return err
	}
	if o.Name == nil {
		s.at = place{section: "outputs", index: i, key: "name", element: -1}
		return s.fail("missing")
	}
	if o.Region.Name != nil && !o.Region.sized {
		s.at = place{section: "outputs", index: i, key: "parameters.shared_memory_byte_size", element: -1}
		return s.fail("missing")
	}
	r.Outputs = append(r.Outputs, o)
	return nil
}

func (o *Output) field(s *scanner, i int, key []byte) (err error) {
	s.at = place{section: "outputs", index: i, element: -1}
	switch string(key) {
	case "name":
		s.at.key = "name"
		if o.Name != nil {
			return s.fail("given twice")
		}
		o.Name, err = s.text()
	case "parameters":
		s.at.key = "parameters"
		if o.parameters {
			return s.fail("given twice")
		}
		o.parameters = true
		err = s.object(func(key []byte) error { return o.parameter(s, key) })
	default:
		err = s.skip()
	}
	return err
}

func (o *Output) parameter(s *scanner, key []byte) (err error) {
	i := s.at.index
	s.at = place{section: "outputs", index: i, key: "parameters", element: -1}
	switch string(key) {
	case "binary_data":
		s.at.key = "parameters.binary_data"
		o.BinarySet = true
		o.Binary, err = s.boolean()
	case "classification":
		s.at.key = "parameters.classification"
		o.Classes, err = s.natural()
	default:
		err = o.Region.parameter(s, key)
	}
	return err
}
