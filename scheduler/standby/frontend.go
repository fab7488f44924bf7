package standby

import "github.com/symphony-serving/symphony/transport/wire"

// Frontend is a frontend's side: which of a group's schedulers its requests go to. It is the one
// that says that it leads, of several the one with the highest reign; a reign once heard of does
// not rule out a lower one, for it may have ended where it began, on the other side of a cut.
type Frontend struct {
	uplinks []uplink
	at      int  // index of the one that is followed; -1: none
	last    lead // that requests went to
}

type uplink struct {
	link  Link // 0: none
	leads bool
	reign wire.Epoch
}

// lead is a reign over one link: with the link a scheduler forgets the requests that came on it.
type lead struct {
	link  Link
	reign wire.Epoch
}

// NewFrontend is of a group of n addresses.
func NewFrontend(n int) *Frontend { return &Frontend{uplinks: make([]uplink, n), at: -1} }

// Leader is the index of the scheduler that requests go to, and its reign; false: none leads, and
// requests wait for one, up to their deadlines.
func (f *Frontend) Leader() (i int, reign wire.Epoch, ok bool) {
	if f.at < 0 {
		return -1, 0, false
	}
	return f.at, f.uplinks[f.at].reign, true
}

// Follows reports whether what came on a link of the i-th scheduler is the leader's word.
func (f *Frontend) Follows(i int, link Link) bool { return i == f.at && f.uplinks[i].link == link }

// Up says that the i-th scheduler has admitted us on link. It leads when it says so.
func (f *Frontend) Up(i int, link Link) (again bool) {
	if f.uplinks[i].link < link {
		f.uplinks[i] = uplink{link: link}
	}
	return f.choose()
}

// Down says that a link of the i-th scheduler has ended.
func (f *Frontend) Down(i int, link Link) (again bool) {
	if f.uplinks[i].link == link {
		f.uplinks[i] = uplink{}
	}
	return f.choose()
}

// Lead takes what the i-th scheduler says.
func (f *Frontend) Lead(i int, link Link, m wire.Lead) (again bool) {
	if f.uplinks[i].link == link {
		f.uplinks[i].leads, f.uplinks[i].reign = m.Leads, m.Epoch
	}
	return f.choose()
}

// choose reports whether all open requests are to be sent (again), to Leader.
func (f *Frontend) choose() (again bool) {
	f.at = -1
	for i, u := range f.uplinks {
		if u.leads && (f.at < 0 || u.reign > f.uplinks[f.at].reign) {
			f.at = i
		}
	}
	if f.at < 0 {
		return false
	}
	now := lead{f.uplinks[f.at].link, f.uplinks[f.at].reign}
	again = now != f.last
	f.last = now
	return again
}
