package engine

import "testing"

// By default no machine is given more spinning threads than it has cores to spare,
// and no two loops share a core that they are pinned to.
func TestPlacementOn(t *testing.T) {
	for cores := 1; cores <= 128; cores++ {
		var all []int
		for c := range cores {
			all = append(all, 100+c) // a process may be kept to some of a machine's cores
		}
		for loops := 1; loops <= 64; loops++ {
			p := PlacementOn(all, cores, loops)
			threads := loops + 1
			if p.Joined {
				threads--
			}
			if q := PlacementOn(append(all, 99), cores, loops); q.Joined != p.Joined || q.Cores != nil || q.ModelPoll != 0 || q.RankPoll != 0 {
				t.Fatalf("a quota of %d of %d cores, %d loops: %+v", cores, cores+1, loops, q)
			}
			if p.Joined != (cores <= loops+1) {
				t.Fatalf("%d cores, %d loops: joined is %v", cores, loops, p.Joined)
			}
			if polls := p.ModelPoll > 0 || p.RankPoll > 0; polls && cores < 2*threads {
				t.Fatalf("%d cores, %d loops: loops poll", cores, loops)
			}
			if len(p.Cores) != 0 && len(p.Cores) != threads {
				t.Fatalf("%d cores, %d loops: %d threads are pinned of %d", cores, loops, len(p.Cores), threads)
			}
			seen := map[int]bool{}
			for _, c := range p.Cores {
				if c <= 100 || c >= 100+cores || seen[c] {
					t.Fatalf("%d cores, %d loops: pinned to %v", cores, loops, p.Cores)
				}
				seen[c] = true
			}
		}
	}
}
