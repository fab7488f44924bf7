package pq

import "slices"

// Sorted is a queue ordered by an int64 key and then by a small one, first in first out among equals,
// over a ring buffer. Requests of one SLO arrive nearly in the order of their
// deadlines, so an insertion walks zero or few places from the back: O(1) in
// the common case, a binary search and a shift of the shorter side otherwise.
//
// Rejected: a heap. It orders mixed SLOs as well, but cannot tell how many
// entries lie beyond a deadline, which the target drop policy asks on every
// grant; here that is a binary search.
type Sorted struct {
	ring []Entry // length is a power of two
	head int     // index of the first entry, not yet masked
	n    int
}

// Entry is a key and the value it orders. Of equal keys the smaller Then goes first.
type Entry struct {
	Key   int64
	Value uint32
	Then  uint8
}

// after reports whether e goes behind o, which was there before.
func (e Entry) after(o Entry) bool { return o.Key < e.Key || o.Key == e.Key && o.Then <= e.Then }

// Len is the number of entries.
func (s *Sorted) Len() int { return s.n }

// At is entry i from the front.
func (s *Sorted) At(i int) Entry { return s.ring[(s.head+i)&(len(s.ring)-1)] }

func (s *Sorted) set(i int, e Entry) { s.ring[(s.head+i)&(len(s.ring)-1)] = e }

// Below counts the entries with a key less than key.
func (s *Sorted) Below(key int64) int {
	low, high := 0, s.n
	for low < high {
		mid := int(uint(low+high) / 2)
		if s.At(mid).Key < key {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// place is how many entries e goes behind.
func (s *Sorted) place(e Entry) int {
	low, high := 0, s.n
	for low < high {
		mid := int(uint(low+high) / 2)
		if e.after(s.At(mid)) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// Insert puts e behind all entries that do not go after it.
func (s *Sorted) Insert(e Entry) {
	if s.n == len(s.ring) {
		s.grow()
	}
	i := s.n
	if s.n > 0 && !e.after(s.At(s.n-1)) {
		i = s.place(e)
	}
	if i < s.n/2 {
		s.head--
		s.n++
		for j := range i {
			s.set(j, s.At(j+1))
		}
	} else {
		s.n++
		for j := s.n - 1; j > i; j-- {
			s.set(j, s.At(j-1))
		}
	}
	s.set(i, e)
}

// Pop removes the first entry; it panics when there is none.
func (s *Sorted) Pop() Entry {
	if s.n == 0 {
		panic("pq: Pop of an empty queue")
	}
	e := s.At(0)
	s.head = (s.head + 1) & (len(s.ring) - 1)
	s.n--
	return e
}

// Remove takes entry i out, from the front; it moves those of the shorter side.
func (s *Sorted) Remove(i int) Entry {
	e := s.At(i)
	if i < s.n/2 {
		for j := i; j > 0; j-- {
			s.set(j, s.At(j-1))
		}
		s.head = (s.head + 1) & (len(s.ring) - 1)
	} else {
		for j := i; j < s.n-1; j++ {
			s.set(j, s.At(j+1))
		}
	}
	s.n--
	return e
}

func (s *Sorted) grow() {
	ring := make([]Entry, max(16, 2*len(s.ring)))
	for i := range s.n {
		ring[i] = s.At(i)
	}
	s.ring, s.head = ring, 0
}

// Grow makes room for n entries at once, so that later insertions allocate
// nothing.
func (s *Sorted) Grow(n int) {
	for len(s.ring) < n {
		s.grow()
	}
}

// Entries are all entries in order, for tests.
func (s *Sorted) Entries() []Entry {
	out := make([]Entry, 0, s.n)
	for i := range s.n {
		out = append(out, s.At(i))
	}
	return slices.Clip(out)
}
