package standby

import (
	"slices"

	"github.com/symphony-serving/symphony/transport/wire"
)

// Backend is a backend's side: what it has promised, and whom it obeys. It needs no clock.
//
// The promise is of the reign and of the life that asked for it: should two processes ever come
// to one reign, the second is refused like one that comes too late. It is kept in memory only:
// a backend that starts anew has nothing running, and promises anew.
type Backend struct {
	promised wire.Epoch // the highest; it never falls
	life     uint64     // that it was promised to
	obeyed   Link       // of that life; 0: it has no link
	links    []scheduler
}

// scheduler is a link to one.
type scheduler struct {
	link Link
	life uint64
}

// Highest is the reign that was promised last; 0: none.
func (b *Backend) Highest() wire.Epoch { return b.promised }

// Obeyed is the link of the scheduler that is obeyed; 0: there is none now.
func (b *Backend) Obeyed() Link { return b.obeyed }

// Obeys reports whether an order of a reign that came on a link is to be taken.
func (b *Backend) Obeys(link Link, reign wire.Epoch) bool {
	return link == b.obeyed && link != 0 && reign == b.promised
}

// Up says that a scheduler has admitted us on link. Any earlier link of its process is over.
func (b *Backend) Up(link Link, life uint64, out *Effects) {
	if i := slices.IndexFunc(b.links, func(s scheduler) bool { return s.life == life }); i >= 0 {
		if b.links[i].link >= link {
			return
		}
		b.end(i, out)
	}
	b.links = append(b.links, scheduler{link, life})
	b.news(link, out)
}

// Down says that a link has ended.
func (b *Backend) Down(link Link, out *Effects) {
	if i := b.at(link); i >= 0 {
		b.end(i, out)
	}
}

// Promise takes what a scheduler asks for.
func (b *Backend) Promise(link Link, m wire.Promise, out *Effects) {
	i := b.at(link)
	if i < 0 {
		return
	}
	life, before, whom := b.links[i].life, b.promised, b.obeyed
	switch {
	case m.Epoch < b.promised || m.Epoch == 0 || m.Epoch >= reignMax:
		out.add(Effect{Kind: Tell, Link: link, Promised: wire.Promised{Epoch: m.Epoch, Highest: max(b.promised, m.Epoch+1), Lost: b.lost()}})
		return
	case m.Epoch == b.promised && life != b.life: // two of one reign: the second must take another
		out.add(Effect{Kind: Tell, Link: link, Promised: wire.Promised{Epoch: m.Epoch, Highest: m.Epoch + 1, Lost: b.lost()}})
		return
	}
	b.promised, b.life, b.obeyed = m.Epoch, life, link
	if whom != link || before != m.Epoch {
		out.add(Effect{Kind: Fence, Link: link, Reign: m.Epoch, Keep: m.Keep})
	}
	out.add(Effect{Kind: Tell, Link: link, Promised: wire.Promised{Epoch: m.Epoch, Highest: m.Epoch}})
	for _, s := range b.links {
		switch {
		case s.link == link:
		case s.link == whom: // the one that is overtaken
			out.add(Effect{Kind: Tell, Link: s.link, Promised: wire.Promised{Epoch: before, Highest: m.Epoch}})
		default:
			b.news(s.link, out)
		}
	}
}

func (b *Backend) at(link Link) int {
	return slices.IndexFunc(b.links, func(s scheduler) bool { return s.link == link })
}

func (b *Backend) lost() bool { return b.promised != 0 && b.obeyed == 0 }

// news tells a scheduler that is not obeyed who is.
func (b *Backend) news(link Link, out *Effects) {
	out.add(Effect{Kind: Tell, Link: link, Promised: wire.Promised{Highest: b.promised, Lost: b.lost()}})
}

// end forgets the i-th link. That the scheduler which is obeyed is gone changes nothing for what
// it has ordered; the others are told: it may be that one of them is to follow.
func (b *Backend) end(i int, out *Effects) {
	link := b.links[i].link
	b.links = slices.Delete(b.links, i, i+1)
	if link != b.obeyed {
		return
	}
	b.obeyed = 0
	for _, s := range b.links {
		b.news(s.link, out)
	}
}
