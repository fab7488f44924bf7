package health

import "github.com/symphony-serving/symphony/transport/mono"

// lasting is a condition that counts once it has lasted, and is over once it was away for
// long. In between it fills and drains, so a condition that is there every second time
// counts, too, after a while.
type lasting struct {
	enter mono.Dur // counts from so long on
	slow  mono.Dur // drains so many times slower than it fills
	level mono.Dur // 0 to enter
	on    bool
}

// step takes a look at the condition after dt. A look after a long time is no more than
// half of the proof: one sample alone shows nothing that lasts.
func (l *lasting) step(dt mono.Dur, here bool) {
	dt = min(dt, (l.enter+1)/2)
	if here {
		l.level = min(l.level+dt, l.enter)
		l.on = l.on || l.level == l.enter
		return
	}
	l.level = max(0, l.level-dt/l.slow)
	l.on = l.on && l.level > 0
}
