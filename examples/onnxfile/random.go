package onnxfile

// Splitmix is the k-th output, from 0, of splitmix64 with a seed: it depends on both
// alone, so weights may be drawn in any order.
func Splitmix(seed, k uint64) uint64 {
	z := seed + (k+1)*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}
