package rdma_test

import (
	"sync"
	"syscall"

	"github.com/symphony-serving/symphony/rdma"
)

// meddler stands between a NIC and its device: it sees the IDs that go in, and
// puts entries into the CQs that the device never made.
type meddler struct {
	rdma.Verbs

	mu     sync.Mutex // Guards what follows.
	posted []uint64   // IDs, of sends and receives
	queues []*meddledCQ
	forged []rdma.Completion // come with the next Poll
	armed  func()            // runs behind each Arm, once set
	refuse int               // the next PostSend takes so many; negative: all
}

func (m *meddler) Open(name string) (rdma.Device, error) {
	d, err := m.Verbs.Open(name)
	return &meddledDevice{d, m}, err
}

// forge makes one CQ's next Poll bring an entry.
func (m *meddler) forge(all ...rdma.Completion) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forged = append(m.forged, all...)
}

// pending is how many forged entries were not polled yet.
func (m *meddler) pending() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.forged)
}

// ids are all that were posted.
func (m *meddler) ids() []uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]uint64(nil), m.posted...)
}

// depths are the sizes of the CQs made.
func (m *meddler) depths() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []int
	for _, q := range m.queues {
		all = append(all, q.depth)
	}
	return all
}

type meddledDevice struct {
	rdma.Device
	m *meddler
}

func (d *meddledDevice) NewCQ(depth int, ch rdma.Channel) (rdma.CQ, error) {
	q, err := d.Device.NewCQ(depth, ch)
	if err != nil {
		return nil, err
	}
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	own := &meddledCQ{q, d.m, depth}
	d.m.queues = append(d.m.queues, own)
	return own, nil
}

func (d *meddledDevice) NewQP(c rdma.QPConfig) (rdma.QP, error) {
	c.SendCQ, c.RecvCQ = c.SendCQ.(*meddledCQ).CQ, c.RecvCQ.(*meddledCQ).CQ
	q, err := d.Device.NewQP(c)
	if err != nil {
		return nil, err
	}
	return &meddledQP{q, d.m}, nil
}

type meddledCQ struct {
	rdma.CQ
	m     *meddler
	depth int
}

func (q *meddledCQ) Poll(dst []rdma.Completion, turns int) (int, error) {
	q.m.mu.Lock()
	n := copy(dst, q.m.forged)
	q.m.forged = q.m.forged[n:]
	q.m.mu.Unlock()
	if n > 0 {
		return n, nil
	}
	return q.CQ.Poll(dst, turns)
}

func (q *meddledCQ) Arm() error {
	err := q.CQ.Arm()
	q.m.mu.Lock()
	armed := q.m.armed
	q.m.mu.Unlock()
	if armed != nil {
		armed()
	}
	return err
}

type meddledQP struct {
	rdma.QP
	m *meddler
}

func (q *meddledQP) PostSend(wrs []rdma.SendWR) (int, error) {
	q.m.mu.Lock()
	for i := range wrs {
		q.m.posted = append(q.m.posted, wrs[i].ID)
	}
	most := q.m.refuse
	q.m.mu.Unlock()
	if most < 0 || most > len(wrs) {
		return q.QP.PostSend(wrs)
	}
	n, _ := q.QP.PostSend(wrs[:most])
	return n, syscall.ENOMEM
}

func (q *meddledQP) PostRecv(wrs []rdma.RecvWR) (int, error) {
	q.m.mu.Lock()
	for i := range wrs {
		q.m.posted = append(q.m.posted, wrs[i].ID)
	}
	q.m.mu.Unlock()
	return q.QP.PostRecv(wrs)
}
