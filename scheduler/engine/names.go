package engine

import "github.com/symphony-serving/symphony/transport/wire"

// names are the tuner's ids of models: as few as there are models, for each of its shadows has
// lists by id, and the cluster's ids are many.
type names struct {
	ids  []uint16 // by the cluster's id, the tuner's plus one; 0: none
	free []uint16
	next uint16 // the least that was never given
}

func (n *names) of(id wire.ModelID) (wire.ModelID, bool) {
	if int(id) >= len(n.ids) || n.ids[id] == 0 {
		return 0, false
	}
	return wire.ModelID(n.ids[id] - 1), true
}

// add gives the model an id, if it has none. The cluster's are below ModelIDsMax.
func (n *names) add(id wire.ModelID) wire.ModelID {
	for int(id) >= len(n.ids) {
		n.ids = append(n.ids, 0)
	}
	if n.ids[id] == 0 {
		given := n.next
		if last := len(n.free) - 1; last >= 0 {
			given, n.free = n.free[last], n.free[:last]
		} else {
			n.next++
		}
		n.ids[id] = given + 1
	}
	return wire.ModelID(n.ids[id] - 1)
}

// remove takes it back, for other models.
func (n *names) remove(id wire.ModelID) {
	if given, ok := n.of(id); ok {
		n.ids[id] = 0
		n.free = append(n.free, uint16(given))
	}
}
