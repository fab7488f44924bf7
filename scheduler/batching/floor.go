package batching

import "github.com/symphony-serving/symphony/transport/mono"

// SetFloor says that no GPU can start the model before t: where models come and go
// (scheduler/paged), the earliest end of a load of its weights. mono.Past, as in the
// beginning, or any instant that has passed: no floor. Call Update afterwards.
//
// A head that could be served alone, but not from t on, is dropped as cold: at once,
// not at its deadline, for no load can save it. What is dropped so, and the first start
// that a floor holds back, teach the model nothing: neither GPUs nor the opening of its
// window are to blame, and an opening learnt from loads would stay early for good.
func (m *Model) SetFloor(t mono.Time) { m.floor = t }

// Floor is the instant before which no GPU can start the model.
func (m *Model) Floor() mono.Time { return m.floor }

// await moves the candidate that was just formed to the floor. It is as early as the weights
// are: what it is held for (Hold) ends when deferral alone would start it, as before.
func (m *Model) await() {
	c := &m.candidate
	deferred := c.Deferred()
	c.Exec, c.Hold = m.floor, 0
	if deferred > m.floor {
		c.Hold = uint32(deferred.Sub(m.floor) / holdUnit)
	}
	m.cold = true
}
