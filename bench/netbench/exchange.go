package netbench

import (
	"errors"
	"fmt"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Shape is a size of message and how it is sent.
type Shape struct {
	Bytes   int
	Payload bool // by SendPayload, Bytes are the payload's; else by Send
}

// echoShapes are the sizes of messages of which the round trip is measured. A Batch
// of 32 requests is 1.5 KB; outputs of image models are some KB to MB. The largest
// SEND of an RDMA link has 8 KiB by default: 8 KiB takes two, or, as a payload, a
// WRITE with immediate.
func echoShapes() []Shape {
	return []Shape{{64, false}, {256, false}, {1 << 10, false}, {4 << 10, false}, {8 << 10, false},
		{8 << 10, true}, {16 << 10, true}, {64 << 10, true}, {256 << 10, true}, {1 << 20, true}}
}

// floodSizes are those of which the rate is measured.
func floodSizes() []int { return []int{64, 256, 1 << 10} }

func payloadMost() int { return 1 << 20 }

// patience is how long an answer may take: longer than a link takes to notice that
// its peer is silent.
const patience = 30 * time.Second

// echo sends one message to the first server and returns the time until its answer
// was there. m is what control built; nil: a payload of n bytes.
func (c *client) echo(m []byte, n int) (mono.Dur, error) {
	start, size := mono.Now(), n
	var err error
	if m != nil {
		err = c.links[0].Send(m)
	} else {
		c.serial++
		stamp(c.out[:n], c.serial)
		frame := (&wire.Output{}).Append(nil, n)
		size += len(frame)
		start = mono.Now()
		err = c.links[0].SendPayload(frame, c.out[:n], func() { c.released <- struct{}{} })
	}
	if err != nil {
		return 0, fmt.Errorf("%s: message of %d bytes: %w", c.way.Name, n, err)
	}
	p, err := c.await()
	if err == nil && m == nil {
		<-c.released // the links' promise: also when they end
	}
	if err == nil && (!p.good || p.size != size) {
		err = fmt.Errorf("%w: %s, message of %d bytes: the answer has %d, or other content", ErrWrongBytes, c.way.Name, size, p.size)
	}
	return p.at.Sub(start), err
}

// await waits for one answer.
func (c *client) await() (pong, error) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case p := <-c.pong:
		return p, nil
	case err := <-c.dead:
		return pong{}, c.lost(err)
	case <-limit.C:
		return pong{}, fmt.Errorf("%s: no answer to a message within %v", c.way.Name, patience)
	}
}

// flood sends messages one way until the span is over, and returns how many came to
// the first server in what time: until it said that the last was there.
func (c *client) flood(m []byte, span mono.Dur) (count int64, took mono.Dur, err error) {
	l := c.links[0]
	if err := c.turnVoice(quiet()); err != nil {
		return 0, 0, err
	}
	start := mono.Now()
	for end := start.Add(span); mono.Now() < end; {
		switch err := l.Send(m); {
		case err == nil:
			count++
		case errors.Is(err, transport.ErrFull):
			time.Sleep(50 * time.Microsecond)
		default:
			return 0, 0, fmt.Errorf("%s: flood: %w", c.way.Name, err)
		}
	}
	if err := c.turnVoice(loud()); err != nil {
		return 0, 0, err
	}
	return count, mono.Now().Sub(start), nil
}

// turnVoice sends a Leave and waits for its answer.
func (c *client) turnVoice(leave []byte) error {
	for {
		err := c.links[0].Send(leave)
		if err == nil {
			break
		}
		if !errors.Is(err, transport.ErrFull) {
			return fmt.Errorf("%s: %w", c.way.Name, err)
		}
		time.Sleep(50 * time.Microsecond)
	}
	_, err := c.await()
	return err
}
