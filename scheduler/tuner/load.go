package tuner

import (
	"math"

	"github.com/symphony-serving/symphony/transport/mono"
)

// load tells when the rate of all arrivals has changed, by more than chance makes of arrivals that
// scatter as these do: at once, when the last loadQuick windows do not fit what was before; or
// bit by bit, when the last loadSlow ones do not fit what was when somebody was last told.
type load struct {
	count     int       // in the present window
	ends      mono.Time // of it
	windows   int       // seen since the last change, up to loadMemory
	mean      float64   // per window
	variance  float64
	quick     [loadQuick]float64
	quickNext int
	slow      float64    // moving mean over loadSlow windows
	anchor    float64    // slow, when somebody was last told
	news      loadChange // that nobody was told of

	// The load that a jump ended, and for how many windows it may come back.
	was  usual
	left int
}

// usual is a load as it is known.
type usual struct {
	windows                int
	mean, variance, anchor float64
}

type loadChange uint8

const (
	loadSame loadChange = iota
	loadDrifted
	loadBack // what was before the last jump is back: that was a burst, or a gap
	loadOther
)

const (
	loadWindow = Turn
	loadQuick  = 3   // windows: what a jump takes to be noticed
	loadSlow   = 10  // windows: likewise a drift; and before the scatter is known
	loadMemory = 200 // windows
	loadSigmas = 4
	// loadBurst is how long a burst may be, in windows: a load that is back after more is another one.
	loadBurst = 25
	// loadCount is how many requests a change must make in the windows that show it: of less
	// nobody can tell chance.
	loadCount = 10
	// loadJump and loadDrift are the least changes that matter.
	loadJump, loadDrift = 0.25, 0.1
)

// arrive counts a request that comes now, in the window that it lies in: who looks does so
// a little late each time, and would now and then give one window's requests to two.
func (l *load) arrive(now mono.Time) {
	l.close(now)
	l.count++
}

// look tells the largest change since the last look.
func (l *load) look(now mono.Time) (change loadChange) {
	l.close(now)
	change, l.news = l.news, loadSame
	return change
}

// close closes the windows that have ended.
func (l *load) close(now mono.Time) {
	if now.Sub(l.ends) > loadMemory*loadWindow {
		l.ends, l.count, l.left = now.Add(loadWindow), 0, 0 // nothing came for long
	}
	for now >= l.ends {
		l.ends = l.ends.Add(loadWindow)
		if n := l.window(float64(l.count)); n == loadBack && l.news == loadOther {
			l.news = loadSame
		} else {
			l.news = max(l.news, n)
		}
		l.count = 0
	}
}

func (l *load) window(n float64) loadChange {
	l.quick[l.quickNext] = n
	l.quickNext = (l.quickNext + 1) % loadQuick
	l.slow += (n - l.slow) / loadSlow
	quick := 0.0
	for _, q := range l.quick {
		quick += q / loadQuick
	}
	if l.left > 0 {
		if l.left--; !differs(quick, l.was.mean, max(l.was.variance, l.was.mean), loadQuick, loadJump) {
			w := l.was
			l.windows, l.mean, l.variance, l.slow, l.anchor, l.left = w.windows, w.mean, w.variance, w.anchor, w.anchor, 0
			return loadBack
		}
	}
	if l.windows >= loadSlow {
		if l.away(quick, l.mean, loadQuick, loadJump) {
			if l.left == 0 {
				l.was, l.left = usual{l.windows, l.mean, l.variance, l.anchor}, loadBurst
			}
			l.windows, l.mean, l.variance = 1, quick, max(quick, 0.1*l.variance)
			l.slow, l.anchor = quick, quick
			return loadOther
		}
		if l.away(l.slow, l.anchor, loadSlow, loadDrift) {
			l.anchor = l.slow
			return loadDrifted
		}
	}
	l.windows = min(l.windows+1, loadMemory)
	d := n - l.mean
	l.mean += d / float64(l.windows)
	l.variance += (float64(d*d) - l.variance) / float64(l.windows)
	if l.windows <= loadSlow {
		l.slow, l.anchor = l.mean, l.mean
	}
	return loadSame
}

// surges tells, before a window ends, whether a burst goes on.
func (l *load) surges(now mono.Time) bool {
	if l.left > 0 {
		return l.mean > l.was.mean
	}
	if l.windows < loadSlow {
		return false
	}
	windows := 2 - float64(max(0, l.ends.Sub(now)))/float64(loadWindow)
	mean := (l.quick[(l.quickNext+loadQuick-1)%loadQuick] + float64(l.count)) / max(1, windows)
	return mean > l.mean && l.away(mean, l.mean, windows, loadJump)
}

// away: a mean over so many windows differs from another one by more than chance makes of
// it, and by a share that matters.
func (l *load) away(mean, from, windows, share float64) bool {
	return differs(mean, from, max(l.variance, l.mean), windows, share)
}

func differs(mean, from, variance, windows, share float64) bool {
	d := math.Abs(mean - from)
	return d > float64(share*from) && float64(d*windows) >= loadCount && d > float64(loadSigmas*math.Sqrt(variance/windows))
}
