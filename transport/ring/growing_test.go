package ring

import (
	"runtime"
	"sync"
	"testing"
)

// flow pushes pairs of its number and a count until stop, singly and two at once, and lets the queue
// grow where it is full. It returns how many were taken in.
func flow(g *Growing[[2]int], number, most int, stop chan struct{}) (accepted int) {
	for {
		select {
		case <-stop:
			return accepted
		default:
		}
		n := 1 + accepted%2
		if n == 2 {
			n = g.PushAll([][2]int{{number, accepted}, {number, accepted + 1}})
		} else if !g.Push(&[2]int{number, accepted}) {
			n = 0
		}
		if accepted += n; n == 0 {
			g.Grow(min(most, 2*g.Cap()))
			runtime.Gosched()
		}
	}
}

// Many producers while the queue grows: nothing is lost or doubled, each producer's
// order holds, and after Seal all that was taken in comes out.
func TestGrowing(t *testing.T) {
	const producers, most, rounds = 4, 1 << 12, 20
	for range rounds {
		g := NewGrowing[[2]int](2)
		var wg sync.WaitGroup
		accepted := make([]int, producers)
		stop := make(chan struct{})
		for p := range producers {
			wg.Go(func() { accepted[p] = flow(g, p, most, stop) })
		}
		next, taken := make([]int, producers), 0
		take := func() bool {
			v := g.Next()
			if v == nil {
				return false
			}
			if v[1] != next[v[0]] {
				t.Fatalf("producer %d: got %d, want %d", v[0], v[1], next[v[0]])
			}
			next[v[0]]++
			taken++
			return true
		}
		for taken < 20_000 {
			for i := 0; i < 64 && take(); i++ {
			}
			g.Release()
		}
		close(stop)
		g.Seal()
		wg.Wait()
		for take() {
		}
		g.Release()
		for p := range producers {
			if next[p] != accepted[p] {
				t.Fatalf("producer %d: %d came out of %d", p, next[p], accepted[p])
			}
		}
		if g.Len() != 0 || g.Ready() || g.Cap() > most || g.Push(&[2]int{}) {
			t.Fatalf("at the end %d wait, ready %v, room for %d", g.Len(), g.Ready(), g.Cap())
		}
	}
}

// What waited before comes before what came after the growth.
func TestGrowingKeepsOrder(t *testing.T) {
	g := NewGrowing[int](4)
	for i := range 4 {
		g.Push(&i)
	}
	five := 4
	if g.Push(&five) {
		t.Fatal("a fifth value fit into four cells")
	}
	g.Grow(8)
	if n := g.PushAll([]int{4, 5, 6}); n != 3 || g.Len() != 7 || g.Cap() != 8 {
		t.Fatalf("%d taken, %d wait, room for %d; want 3, 7 and 8", n, g.Len(), g.Cap())
	}
	for want := range 7 {
		var v int
		if !g.Ready() || !g.Pop(&v) || v != want {
			t.Fatalf("got %d, want %d", v, want)
		}
	}
	if g.Ready() || g.Len() != 0 {
		t.Error("something is left")
	}
}
