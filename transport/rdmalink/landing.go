package rdmalink

// The landing zone is a ring that the peer WRITEs messages into, one behind the
// other; positions count bytes from the beginning of time, modulo 2^32, and the
// zone's size is a power of two. Both sides compute them alike: a message begins at
// a multiple of landingUnit and never wraps, so what is left at the end is skipped.

// landingUnit is what the immediate counts offsets in: 32 bits of it reach 256 GiB.
const landingUnit = 64

// roundUp is n in whole units.
func roundUp(n int) uint32 { return uint32(n+landingUnit-1) / landingUnit * landingUnit }

// landingPlace finds where a message of n bytes goes when head is the position
// behind the last one; it begins at offset and ends at the position end.
func landingPlace(head uint32, n, size int) (offset, end uint32) {
	offset = head % uint32(size)
	if offset+roundUp(n) > uint32(size) {
		head += uint32(size) - offset
		offset = 0
	}
	return offset, head + roundUp(n)
}

// landingEnd is the position behind a message of n bytes at offset, when freed is
// the one behind the message before it.
func landingEnd(freed, offset uint32, n, size int) uint32 {
	if n == 0 {
		return freed
	}
	skipped := (offset - freed%uint32(size) + uint32(size)) % uint32(size)
	return freed + skipped + roundUp(n)
}
