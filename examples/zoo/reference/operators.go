package reference

import (
	"math"
	"runtime"
	"sync"
)

// dot is the sum of products. Four sums at a time: a processor does not wait for one
// addition to begin the next.
func dot(a, b []float32) float64 {
	var s0, s1, s2, s3 float64
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += float64(a[i]) * float64(b[i])
		s1 += float64(a[i+1]) * float64(b[i+1])
		s2 += float64(a[i+2]) * float64(b[i+2])
		s3 += float64(a[i+3]) * float64(b[i+3])
	}
	for ; i < len(a); i++ {
		s0 += float64(a[i]) * float64(b[i])
	}
	return s0 + s1 + s2 + s3
}

// parallel calls f for 0..n-1 on all processors.
func parallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	procs := runtime.GOMAXPROCS(0)
	for p := range procs {
		wg.Go(func() {
			for i := p; i < n; i += procs {
				f(i)
			}
		})
	}
	wg.Wait()
}

// linear is x*w + b: x of rows x in, w of in x out.
func linear(x []float32, in int, w, b []float32) []float32 {
	rows, out := len(x)/in, len(b)
	columns := make([]float32, len(w)) // w turned, so that products run along memory
	for i := range in {
		for o := range out {
			columns[o*in+i] = w[i*out+o]
		}
	}
	y := make([]float32, rows*out)
	parallel(rows, func(r int) {
		for o := range out {
			y[r*out+o] = float32(dot(x[r*in:(r+1)*in], columns[o*in:(o+1)*in]) + float64(b[o]))
		}
	})
	return y
}

// plane is an activation of images: channels of size x size.
type plane struct {
	channels, size int
	v              []float32
}

// convolve is a convolution of k x k with padding of k/2. group is 1, or the number of channels.
func (p plane) convolve(w, b []float32, k, stride, group int) plane {
	size := (p.size+2*(k/2)-k)/stride + 1
	y := plane{len(b), size, make([]float32, len(b)*size*size)}
	in := p.channels / group // channels that a filter sees
	n := in * k * k
	parallel(size*size, func(at int) {
		patch := make([]float32, n)
		for o := range y.channels {
			if first := o * group / y.channels * in; o == 0 || group > 1 {
				p.patch(patch, first, in, k, at/size*stride-k/2, at%size*stride-k/2)
			}
			y.v[o*size*size+at] = float32(dot(w[o*n:(o+1)*n], patch) + float64(b[o]))
		}
	})
	return y
}

// patch is what a filter sees that begins at (top, left); nothing is zero.
func (p plane) patch(out []float32, first, channels, k, top, left int) {
	for c := range channels {
		for dy := range k {
			for dx := range k {
				y, x, v := top+dy, left+dx, float32(0)
				if y >= 0 && y < p.size && x >= 0 && x < p.size {
					v = p.v[((first+c)*p.size+y)*p.size+x]
				}
				out[(c*k+dy)*k+dx] = v
			}
		}
	}
}

// pool is the largest of each 3x3, in steps of 2.
func (p plane) pool() plane {
	size := (p.size+2-3)/2 + 1
	y := plane{p.channels, size, make([]float32, p.channels*size*size)}
	for i := range y.v {
		c, top, left := i/(size*size), i/size%size*2-1, i%size*2-1
		most := float32(math.Inf(-1))
		for row := max(0, top); row < min(p.size, top+3); row++ {
			for column := max(0, left); column < min(p.size, left+3); column++ {
				most = max(most, p.v[(c*p.size+row)*p.size+column])
			}
		}
		y.v[i] = most
	}
	return y
}

// means are the channels' means.
func (p plane) means() []float32 {
	out, n := make([]float32, p.channels), p.size*p.size
	for c := range out {
		sum := 0.0
		for _, v := range p.v[c*n : (c+1)*n] {
			sum += float64(v)
		}
		out[c] = float32(sum / float64(n))
	}
	return out
}

// clip bounds x in place: ReLU is clip to 0 and infinity.
func clip(x []float32, low, high float64) {
	for i, v := range x {
		x[i] = float32(min(max(float64(v), low), high))
	}
}

func add(x, y []float32) {
	for i := range x {
		x[i] += y[i]
	}
}

// normalise is layer normalisation of rows, in place.
func normalise(x, scale, shift []float32, epsilon float64) {
	n := len(scale)
	for r := 0; r < len(x); r += n {
		row := x[r : r+n]
		mean, variance := 0.0, 0.0
		for _, v := range row {
			mean += float64(v) / float64(n)
		}
		for _, v := range row {
			variance += (float64(v) - mean) * (float64(v) - mean) / float64(n)
		}
		for i, v := range row {
			row[i] = float32((float64(v)-mean)/math.Sqrt(variance+epsilon)*float64(scale[i]) + float64(shift[i]))
		}
	}
}

// gelu is x times the normal distribution of x, in place.
func gelu(x []float32) {
	for i, v := range x {
		x[i] = float32(float64(v) * 0.5 * math.Erfc(-float64(v)/math.Sqrt2))
	}
}

// softmax makes scores shares, in place.
func softmax(x []float64) {
	most, sum := math.Inf(-1), 0.0
	for _, v := range x {
		most = max(most, v)
	}
	for i, v := range x {
		x[i] = math.Exp(v - most)
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}
