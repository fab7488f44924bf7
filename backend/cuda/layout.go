package cuda

import "github.com/symphony-serving/symphony/transport/catalog"

// align is where tensors may begin: what kernels load at once, and what CUDA's allocations
// are aligned to.
const align = 256

// layout is where the inputs, or the outputs, of one model lie: on the host item by item, an
// item's tensors one after another (catalog.ModelSpec); on the device tensor by tensor, each
// with its items back to back, and with room for the largest batch. A tensor's place does
// not depend on the batch's size, so what lies behind a batch's last item are that tensor's
// own items, of batches before, or of the warm-up runs: an index that is out of
// bounds, say, cannot come from padding.
type layout struct {
	tensors []tensor
	item    int   // bytes of an item on the host
	bytes   int64 // on the device
}

type tensor struct {
	at   int64 // offset on the device
	from int   // offset in an item
	item int   // bytes of an item
}

func layoutOf(specs []catalog.TensorSpec, maxBatch int) layout {
	var l layout
	for _, s := range specs {
		n := int(s.ByteSize())
		l.tensors = append(l.tensors, tensor{at: l.bytes, from: l.item, item: n})
		l.item += n
		l.bytes += (int64(n)*int64(maxBatch) + align - 1) / align * align
	}
	return l
}

// staged reports whether a batch is rearranged on the host on its way. A copy for each
// item and tensor would need no such thing, but is a call of the driver each.
func (l *layout) staged() bool { return len(l.tensors) > 1 }

// pointers are the tensors' places in memory that begins at base.
func (l *layout) pointers(base Ptr) []Ptr {
	var out []Ptr
	for _, t := range l.tensors {
		out = append(out, base+Ptr(t.at))
	}
	return out
}

// gather rearranges n items, so that each tensor's lie back to back, one tensor behind the
// other.
func (l *layout) gather(to, items []byte, n int) {
	for _, t := range l.tensors {
		for i := range n {
			at := i*l.item + t.from
			to = to[copy(to, items[at:at+t.item]):]
		}
	}
}

// scatter is the way back.
func (l *layout) scatter(items, from []byte, n int) {
	for _, t := range l.tensors {
		for i := range n {
			at := i*l.item + t.from
			from = from[copy(items[at:at+t.item], from):]
		}
	}
}
