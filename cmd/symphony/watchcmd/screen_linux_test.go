package watchcmd

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/scheduler/watch"
)

// terminal is a pseudo-terminal and what is on it.
type terminal struct {
	t             *testing.T
	master, slave *os.File

	mu    sync.Mutex // Guards what follows.
	said  string     // all of it
	other bool       // the alternate screen is shown
	rows  map[int]string
	row   int
	bad   string
}

func openTerminal(t *testing.T, width, height int) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err) // no pseudo-terminals here
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	k := &terminal{t: t, master: master, slave: slave, rows: map[int]string{}, row: 1}
	k.resize(width, height)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buffer := make([]byte, 1<<16)
		rest := ""
		for {
			n, err := unix.Read(int(master.Fd()), buffer)
			if err != nil || n == 0 {
				return
			}
			rest = k.show(rest + string(buffer[:n]))
		}
	}()
	t.Cleanup(func() {
		slave.Close()
		<-ended // the other end is closed
		master.Close()
	})
	return k
}

func (k *terminal) resize(width, height int) {
	k.t.Helper()
	if err := unix.IoctlSetWinsize(int(k.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(height), Col: uint16(width)}); err != nil {
		k.t.Fatal(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for row := range k.rows {
		if row > height { // it is no longer there
			delete(k.rows, row)
		}
	}
}

// show does what is written, as far as top writes it, and returns what may be the beginning of more.
func (k *terminal) show(text string) (rest string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	control := regexp.MustCompile(`^\x1b\[(\??[0-9;]*)([A-Za-z])`)
	k.said += text
	for text != "" {
		if text[0] != '\x1b' {
			end := strings.IndexByte(text, '\x1b')
			if end < 0 {
				end = len(text)
			}
			k.rows[k.row] += text[:end]
			text = text[end:]
			continue
		}
		m := control.FindStringSubmatch(text)
		if m == nil {
			k.said = k.said[:len(k.said)-len(text)]
			return text
		}
		text = text[len(m[0]):]
		switch m[1] + m[2] {
		case "?1049h", "?1049l":
			k.other = m[2] == "h"
		case "?25h", "?25l", "K":
		case "2J":
			k.rows = map[int]string{}
		case "J":
			for row := range k.rows {
				if row >= k.row {
					delete(k.rows, row)
				}
			}
		default:
			row, ok := strings.CutSuffix(m[1], ";1")
			n, err := strconv.Atoi(row)
			if !ok || m[2] != "H" || err != nil {
				k.bad = m[0]
			}
			k.row = n
			k.rows[n] = ""
		}
	}
	return ""
}

// screen is what is to be read on it, and whether it fits.
func (k *terminal) screen(width, height int) (text string, fits bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fits = k.bad == ""
	for row := 1; row <= 200; row++ {
		line := k.rows[row]
		fits = fits && len([]rune(line)) <= width && (row <= height || line == "")
		text += line + "\n"
	}
	return strings.TrimRight(text, "\n"), fits
}

// written is all that was written so far, and whether the alternate screen is shown.
func (k *terminal) written() (said string, other bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.said, k.other
}

func (k *terminal) await(what string, width, height int, is func(text string) bool) (text string) {
	k.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if text, fits := k.screen(width, height); fits && is(text) {
			return text
		}
	}
	text, fits := k.screen(width, height)
	k.t.Fatalf("%s: not within 30 s; it fits: %v, not understood: %q\n%s", what, fits, k.bad, text)
	return ""
}

func (k *terminal) settings() unix.Termios {
	k.t.Helper()
	s, err := unix.IoctlGetTermios(int(k.slave.Fd()), unix.TCGETS)
	if err != nil {
		k.t.Fatal(err)
	}
	return *s
}

// On a terminal of 80 by 24 top draws, draws anew, and follows the terminal's size; typed keys are not shown; q,
// Ctrl-C (which cancels its context) and SIGHUP end it, and leave the terminal as it was. Nothing of it is coloured.
func TestTopOnATerminal(t *testing.T) {
	hung := make(chan os.Signal, 1)
	signal.Notify(hung, unix.SIGHUP) // where nobody takes it, it would end the tests
	defer signal.Stop(hung)
	for _, how := range []string{"q", "Ctrl-C", "SIGHUP"} {
		t.Run(how, func(t *testing.T) {
			f, admin := startScheduler(t)
			k := openTerminal(t, 80, 24)
			before := k.settings()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- Top{Admin: admin}.follows(ctx, k.slave, k.slave) }()
			t.Log("\n" + k.await("a picture", 80, 24, func(s string) bool { return strings.Contains(s, "100 GPUs") && strings.Contains(s, "more models") }))
			if _, other := k.written(); !other {
				t.Error("it is not on the alternate screen")
			}
			if now := k.settings(); now.Lflag&(unix.ECHO|unix.ICANON) != 0 || now.Lflag&unix.ISIG == 0 {
				t.Error("keys are echoed, or Ctrl-C is no signal")
			} else if now.Cc[unix.VSUSP] != 0 || now.Cc[unix.VQUIT] != 0 || now.Cc[unix.VINTR] != before.Cc[unix.VINTR] {
				t.Errorf("keys stop or kill: %v", now.Cc)
			}
			f.tell(watch.Event{Kind: watch.Pool, At: 2000 * ms, Info: &watch.Info{Name: "renamed", GPUs: 100}})
			k.await("what changed", 80, 24, func(s string) bool { return strings.Contains(s, "renamed") })
			for _, size := range [][2]int{{50, 10}, {120, 40}} {
				k.resize(size[0], size[1])
				k.await("another size", size[0], size[1], func(s string) bool {
					return len(strings.Split(s, "\n")) > size[1]-4 && strings.Contains(s, "renamed")
				})
			}
			switch how {
			case "q":
				if _, err := k.master.WriteString("xq"); err != nil { // what is no key of its is passed over
					t.Fatal(err)
				}
			case "SIGHUP":
				if err := unix.Kill(os.Getpid(), unix.SIGHUP); err != nil {
					t.Fatal(err)
				}
			default:
				cancel()
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(30 * time.Second):
				t.Error("it has not ended within 30 s")
				cancel()
				<-ended
			}
			if after := k.settings(); !reflect.DeepEqual(after, before) {
				t.Errorf("the terminal's settings are %+v, were %+v", after, before)
			}
			k.await("the screen of before", 1000, 1000, func(string) bool {
				said, other := k.written()
				return !other && strings.HasSuffix(said, "\x1b[?25h\x1b[?1049l")
			})
			if said, _ := k.written(); regexp.MustCompile(`\x1b\[[0-9;]*m`).MatchString(said) {
				t.Error("it has colours")
			}
		})
	}
}

// A scheduler that is not there is an error, and the terminal is as it was; one that goes is told of.
func TestTopWithoutAScheduler(t *testing.T) {
	k := openTerminal(t, 80, 24)
	before := k.settings()
	if err := (Top{Admin: Admin{closed(t)}}).follows(t.Context(), k.slave, k.slave); err == nil || !strings.Contains(err.Error(), "nobody listens") {
		t.Errorf("%v", err)
	}
	if after := k.settings(); !reflect.DeepEqual(after, before) {
		t.Errorf("the terminal's settings are %+v, were %+v", after, before)
	}
	l := &live{picture: newPicture(), failed: make(chan error, 1)}
	l.begin(watch.NewHead("live", "gone", 0))
	if text := l.lines(80, 24); len(text) != 1 || !strings.Contains(text[0], "waiting") {
		t.Errorf("before anything came: %q", text)
	}
	if err := l.chunk(); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(l.lines(80, 24), "\n"); strings.Contains(text, "nothing comes") || strings.Contains(text, "waiting") {
		t.Errorf("of one that tells:\n%s", text)
	}
	l.heard = time.Now().Add(-7 * time.Second)
	if text := strings.Join(l.lines(80, 24), "\n"); !strings.Contains(text, "nothing comes from the scheduler for 7 s") {
		t.Errorf("of one that is silent:\n%s", text)
	}
	l.trouble = "no connection: x"
	if text := strings.Join(l.lines(80, 24), "\n"); !strings.Contains(text, "no connection: x") {
		t.Errorf("of one that went:\n%s", text)
	}
}
