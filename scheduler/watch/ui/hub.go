package ui

import (
	"context"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Source tells events: a scheduler's server.
type Source interface {
	WatchHead() watch.Head
	// Watching begins or ends that Watched has something to tell.
	Watching(on bool)
	// Watched adds the events since the last call.
	Watched(to *watch.Told)
}

// Config of a Hub. Zero values mean the defaults in brackets.
type Config struct {
	// Source is who tells events now; nil: nobody, for a moment. It is asked each time: a
	// scheduler of a group is followed by another one.
	Source func() Source
	// Texts are what else the page shows in words, as the plan; asked each few seconds while
	// somebody looks, once at a time, on a goroutine of its own. Close ends the context, and
	// waits for it [none].
	Texts func(context.Context) []watch.Info
	// Always keeps events also while nobody looks, so that each request's story can be told.
	Always  bool
	Linger  mono.Dur // how long events are kept on after the last viewer, or a question [30 s]
	Viewers int      // at a time, at most [8]
	Keep    mono.Dur // how long events are kept [60 s]
	Bytes   int      // about, for those that are kept [64 MiB]
}

const (
	// every is between two looks at the source. About half of what a look costs is the same whatever happened meanwhile:
	// goroutines and a reader that wake up, the surroundings, a write. So they are as far apart as people bear: the page draws
	// what happened a second ago, each frame anew, and what is behind it is this and a bit (main.js).
	every = 800 * time.Millisecond
	// textsEvery is between two looks at Texts.
	textsEvery = 2 * time.Second
	// behindMost is how many looks a viewer may be behind.
	behindMost = 6
	// recent is how much of what was kept a new viewer gets.
	recent = 20 * mono.Second
)

// Hub gathers events while somebody looks, and hands them on.
type Hub struct {
	cfg   Config
	file  watch.Head // of a file that was read; "" in Symphony: it is live
	texts asker
	saves chan struct{} // held by the one that saves
	spare chan *chunk   // those that all viewers have sent: the next ones' memory

	mu      sync.Mutex // Guards what follows.
	closed  bool
	running bool
	ended   chan struct{} // closed when run has ended
	stop    chan struct{} // closed by Close
	until   time.Time     // somebody looked: it runs until then
	source  Source        // that is watched
	history *watch.History
	state   *watch.State
	viewers map[*viewer]bool
	told    watch.Told // scratch
	asked   time.Time  // when Texts were
	whole   []byte     // of a file: its stream, once somebody has asked for it
}

// NewHub makes a Hub of a live source. Close ends it.
func NewHub(cfg Config) *Hub {
	if cfg.Linger == 0 {
		cfg.Linger = 30 * mono.Second
	}
	if cfg.Viewers == 0 {
		cfg.Viewers = 8
	}
	if cfg.Keep == 0 {
		cfg.Keep = 60 * mono.Second
	}
	if cfg.Bytes == 0 {
		cfg.Bytes = 64 << 20
	}
	h := &Hub{cfg: cfg, texts: newAsker(), saves: make(chan struct{}, 1), stop: make(chan struct{}), viewers: map[*viewer]bool{}, spare: make(chan *chunk, sparesMost), history: watch.NewHistory(cfg.Keep, cfg.Bytes), state: &watch.State{}}
	if cfg.Always {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.look()
	}
	return h
}

// Close ends it, and all streams.
func (h *Hub) Close() {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return
	}
	h.closed = true
	close(h.stop)
	h.texts.cancel()
	ended := h.ended
	h.mu.Unlock()
	if ended != nil {
		<-ended
	}
	h.texts.running.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cutAll()
}

// look has it gather events for a while. Caller holds mu.
func (h *Hub) look() {
	h.linger()
	if h.running || h.closed || h.live() == nil && !h.cfg.Always {
		return // with Always it waits for one, that is made later
	}
	h.running, h.ended = true, make(chan struct{})
	h.begin()
	h.turn()
	go h.run(h.ended)
}

// linger has it go on for a while. Caller holds mu.
func (h *Hub) linger() { h.until = time.Now().Add(h.cfg.Linger.Std()) }

// live is the source of now; nil where there is none, as of a file.
func (h *Hub) live() Source {
	if h.cfg.Source == nil {
		return nil
	}
	return h.cfg.Source()
}

// begin turns to the source of now: what was kept is another's, or has a gap.
func (h *Hub) begin() {
	h.source = h.live()
	h.forget()
	if h.source != nil {
		h.source.Watching(true)
	}
}

// run looks at the source until nobody has looked for a while.
func (h *Hub) run(ended chan struct{}) {
	defer close(ended)
	t := time.NewTicker(every)
	defer t.Stop()
	for { // source and asked change on this goroutine only, while it runs
		var texts []watch.Info
		asked := false
		select {
		case <-h.stop:
			h.mu.Lock()
			defer h.mu.Unlock()
			h.end()
			return
		case now := <-t.C:
			if h.cfg.Texts != nil && h.source != nil && now.Sub(h.asked) >= textsEvery && h.texts.ask(h.cfg.Texts) {
				h.asked = now
			}
		case texts = <-h.texts.answers:
			asked = true
		}
		if !h.step(texts, asked) {
			return
		}
	}
}

// step is one look; false: nobody looks any more.
func (h *Hub) step(texts []watch.Info, asked bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.viewers) == 0 && !h.cfg.Always && time.Now().After(h.until) {
		h.end()
		return false
	}
	if h.live() != h.source {
		if h.source != nil {
			h.source.Watching(false)
		}
		h.cutAll() // they come again, and begin anew
		h.begin()
	}
	if asked && h.source != nil {
		h.tellTexts(texts)
	}
	h.turn()
	return true
}

// end stops the source. Caller holds mu.
func (h *Hub) end() {
	if h.source != nil {
		h.source.Watching(false)
	}
	h.source, h.running = nil, false
	h.forget()
	h.told = watch.Told{}
	h.dropSpares()
}

// forget has nothing known, and kept. Caller holds mu.
func (h *Hub) forget() {
	h.history.Clear()
	h.state, h.asked = &watch.State{}, time.Time{}
}

// tellTexts makes events of what changed of the texts; turn takes them with the others.
func (h *Hub) tellTexts(texts []watch.Info) {
	told := h.state.Texts
	for i := range texts {
		if k := find(told, texts[i].Name); k < 0 || !sameLines(told[k].Lines, texts[i].Lines) {
			h.told.Add(&watch.Event{Kind: watch.Text, At: mono.Now(), Info: &texts[i]})
		}
	}
	for i := range told {
		if find(texts, told[i].Name) < 0 {
			h.told.Add(&watch.Event{Kind: watch.Text, At: mono.Now(), Info: &watch.Info{Name: told[i].Name, Gone: true}})
		}
	}
}

// turn takes what the source tells, keeps it, and hands it to the viewers. Caller holds mu.
func (h *Hub) turn() {
	if h.source == nil {
		return
	}
	h.source.Watched(&h.told)
	mark := h.history.Next()
	for i := range h.told.Events { // the frequent ones change nothing that is asked of the state here
		h.state.Apply(&h.told.Events[i])
		h.history.Add(&h.told.Events[i])
	}
	h.history.AddRecords(h.told.Words)
	h.history.Close()
	if len(h.viewers) > 0 {
		c := h.newChunk()
		c.text = ends(h.history.Append(c.text, mark, data), mono.Now())
		h.hand(c)
	}
	h.told.Reset()
}

// data is before each line of a stream.
const data = "data: "

// ends tells that all up to an instant has been told, and ends a server-sent event.
func ends(to []byte, at mono.Time) []byte {
	now := watch.Event{Kind: watch.Now, At: at}
	return append(now.Append(append(to, data...)), '\n')
}
