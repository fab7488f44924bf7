package standby

import "github.com/symphony-serving/symphony/transport/wire"

// Link numbers a link: the shell counts them up and uses none twice, so a later link of the same
// peer has the higher number. What comes of a link that has ended, or was replaced, is not heard.
type Link uint64

// Kind says what an Effect asks for.
type Kind uint8

const (
	// SendBeat: a scheduler sends Beat to the peer on Link.
	SendBeat Kind = 1 + iota
	// Ask: a scheduler sends Promise to the backend on Link.
	Ask
	// Lead: this scheduler leads with Reign from now on: tell all frontends.
	Lead
	// Use: the backend on Link has promised Reign: its GPUs may have batches from now on, until
	// the link ends or Yield comes. Only while this scheduler leads, and after Lead.
	Use
	// Yield: this scheduler leads no more, Reign is over: no batch goes out from now on, whatever
	// waits; tell all frontends, forget their requests.
	Yield
	// Note: a line for the log.
	Note
	// Fence: a backend gives up the batches that have not begun (unless Keep), takes none of the
	// links before any more, and sends Running on Link for each that goes on. Before the next effect.
	Fence
	// Tell: a backend sends Promised to the scheduler on Link.
	Tell
)

// Effect is one thing to carry out. Which fields count is said with its Kind.
type Effect struct {
	Kind     Kind
	Link     Link
	Reign    wire.Epoch
	Keep     bool
	Beat     wire.Beat
	Promise  wire.Promise
	Promised wire.Promised
	Text     string
}

// Effects are to be carried out in their order.
type Effects []Effect

func (e *Effects) add(f Effect) { *e = append(*e, f) }

func (e *Effects) note(text string) { e.add(Effect{Kind: Note, Text: text}) }
