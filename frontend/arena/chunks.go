package arena

// chunkSize is how much memory a size takes at a time, if its slabs are smaller.
const chunkSize = 1 << 20

const (
	unitsPerChunk = chunkSize / smallest
	// chunkClass is the class of slabs as large as a chunk; larger ones take a block of
	// several.
	chunkClass = 5
	levels     = classes - chunkClass
)

// chunks says which memory belongs to which size of slabs.
//
//	               carve                         take
//	blocks (free) -------> a class's chunk, empty ------> ... with room <------> full
//	      ^                      |  ^                           |         give
//	      |   all but one of a   |  +---------------------------+
//	      +---- class; this one -+          last slab given back
//	            too when memory
//	            is short
//
// Free memory is blocks of 1, 4 and 16 chunks, aligned to their size: one is split into
// four where a smaller one is wanted, and four free ones that were one are joined. A class
// keeps one empty chunk, so that a single request that comes and goes moves no memory
// between sizes. Each step is bounded by the number of classes, and none allocates.
//
// Rejected: blocks down to 1 KiB, split and joined alike: a lone small slab would go through
// seven levels each time. Giving empty chunks back only when memory is short: finding
// neighbours for a slab of 16 MiB would walk through all of them.
type chunks struct {
	all    []chunk         // by number; 0 is none's, memory begins with 1
	blocks [levels]list    // free blocks by level: of 4^level chunks
	room   [classes]list   // chunks with slabs in use and room for more
	idle   [classes]uint32 // a chunk without slabs in use; 0: none
}

// chunk is some memory of one size; of a block of several, the first stands for it.
type chunk struct {
	class      int8
	free       bool   // a free block of this level begins here
	level      int8   // of the block
	held       int32  // slabs in use, or freed and still pinned
	fresh      int32  // slabs from here on were not given yet
	back       uint32 // the slab that was given back last, + 1; it names the next
	prev, next uint32 // in the list that it is in
}

// list is the ends of a list of chunks; 0: none.
type list struct{ first, last uint32 }

func (c *chunks) init(n int) {
	c.all = make([]chunk, n+1)
	for at := 0; at < n; {
		level := levels - 1
		for at%(1<<(2*level)) != 0 || at+1<<(2*level) > n {
			level--
		}
		c.free(uint32(at+1), level)
		at += 1 << (2 * level)
	}
}

// slabsOf is how many slabs of a class a chunk has.
func slabsOf(class int) int32 { return int32(max(1, unitsPerChunk>>(2*class))) }

// take is a free slab of the class; false when no memory is left for one.
func (c *chunks) take(class int, slabs []slab) (uint32, bool) {
	n := c.room[class].first
	if n == 0 {
		if n = c.idle[class]; n != 0 {
			c.idle[class] = 0
		} else if n = c.carve(class); n == 0 {
			return 0, false
		}
		c.pushFront(&c.room[class], n)
	}
	k := &c.all[n]
	var i uint32
	if k.back != 0 {
		i = k.back - 1
		k.back = slabs[i].next
	} else {
		i = (n-1)*unitsPerChunk + uint32(k.fresh)<<(2*class)
		k.fresh++
	}
	if k.held++; k.held == slabsOf(class) {
		c.drop(&c.room[class], n)
	}
	return i, true
}

// give takes a slab back that nobody holds any more. Chunks with room go to the end of
// their list: slabs are taken from the first until it is full, so that the others empty.
func (c *chunks) give(i uint32, slabs []slab) {
	n := i/unitsPerChunk + 1
	k := &c.all[n]
	slabs[i].next, k.back = k.back, i+1
	room := &c.room[k.class]
	if k.held == slabsOf(int(k.class)) {
		c.pushBack(room, n)
	}
	if k.held--; k.held > 0 {
		return
	}
	c.drop(room, n)
	if c.idle[k.class] == 0 {
		c.idle[k.class] = n
		return
	}
	c.free(n, levelOf(int(k.class)))
}

// levelOf is the level of the blocks that a class takes.
func levelOf(class int) int { return max(0, class-chunkClass) }

// carve makes a free block the class's; 0 when there is none, even with the chunks that
// classes keep.
func (c *chunks) carve(class int) uint32 {
	level := levelOf(class)
	n := c.block(level)
	if n == 0 {
		for k := range c.idle {
			if idle := c.idle[k]; idle != 0 {
				c.idle[k] = 0
				c.free(idle, levelOf(k))
			}
		}
		if n = c.block(level); n == 0 {
			return 0
		}
	}
	c.all[n] = chunk{class: int8(class)}
	return n
}

// block takes a free block of the level, of a larger one if need be; 0: none.
func (c *chunks) block(level int) uint32 {
	from := level
	for from < levels && c.blocks[from].first == 0 {
		from++
	}
	if from == levels {
		return 0
	}
	n := c.blocks[from].first
	c.drop(&c.blocks[from], n)
	c.all[n].free = false
	for from > level {
		from--
		for quarter := 3; quarter > 0; quarter-- {
			c.enter(n+uint32(quarter)<<(2*from), from)
		}
	}
	return n
}

// free makes a block free, and one with the other three quarters of the larger block that
// it is a part of, if they are.
func (c *chunks) free(n uint32, level int) {
	for ; level < levels-1; level++ {
		whole := (n-1)&^(1<<(2*level+2)-1) + 1
		if int(whole)-1+1<<(2*level+2) > len(c.all)-1 {
			break
		}
		quarter := func(q int) uint32 { return whole + uint32(q)<<(2*level) }
		for q := range 4 {
			if k := &c.all[quarter(q)]; quarter(q) != n && !(k.free && int(k.level) == level) {
				c.enter(n, level)
				return
			}
		}
		for q := range 4 {
			if m := quarter(q); m != n {
				c.drop(&c.blocks[level], m)
				c.all[m].free = false
			}
		}
		n = whole
	}
	c.enter(n, level)
}

// enter puts a block that is free into its list.
func (c *chunks) enter(n uint32, level int) {
	c.all[n] = chunk{free: true, level: int8(level)}
	c.pushFront(&c.blocks[level], n)
}

func (c *chunks) pushFront(l *list, n uint32) {
	c.all[n].prev, c.all[n].next = 0, l.first
	if l.first != 0 {
		c.all[l.first].prev = n
	} else {
		l.last = n
	}
	l.first = n
}

func (c *chunks) pushBack(l *list, n uint32) {
	c.all[n].prev, c.all[n].next = l.last, 0
	if l.last != 0 {
		c.all[l.last].next = n
	} else {
		l.first = n
	}
	l.last = n
}

func (c *chunks) drop(l *list, n uint32) {
	k := &c.all[n]
	if k.prev != 0 {
		c.all[k.prev].next = k.next
	} else {
		l.first = k.next
	}
	if k.next != 0 {
		c.all[k.next].prev = k.prev
	} else {
		l.last = k.prev
	}
}
