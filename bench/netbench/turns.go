package netbench

import (
	"fmt"

	"github.com/symphony-serving/symphony/transport/mono"
)

// incastTurn makes rounds until the turn ends.
func (b *bench) incastTurn(i int, until mono.Time) error {
	c, t := b.clients[i], b.tallies[i]
	before, err := b.usage()
	if err != nil {
		return err
	}
	for ok := true; ok; ok = mono.Now() < until && b.ctx.Err() == nil && !b.enough(t) {
		at := int(t.round.Count()) % len(c.objects)
		c.wipe(at)
		took, err := c.round()
		if err == nil {
			err = c.check(at)
		}
		if err != nil {
			return err
		}
		t.round.Add(took)
		t.busy += took
		for k := range c.objects {
			o := &c.objects[k]
			t.read.Add(o.end.Sub(o.start))
			t.bytes += int64(len(o.dst))
		}
	}
	after, err := b.usage()
	t.cpu.add(after.sub(before))
	return err
}

// enough: a turn does not go on beyond the rounds that were asked for.
func (b *bench) enough(t *tally) bool {
	return b.cfg.Rounds > 0 && t.round.Count() >= int64(b.cfg.Rounds)
}

// usage is the processor time until now.
func (b *bench) usage() (usage, error) {
	var u usage
	var err error
	if u.client, err = ProcessCPU(); err != nil {
		return u, fmt.Errorf("processor time of the client: %w", err)
	}
	if b.cfg.Servers != nil {
		if u.servers, err = b.cfg.Servers(); err != nil {
			return u, fmt.Errorf("processor time of the servers: %w", err)
		}
	}
	u.machine, u.known = machineCPU()
	return u, nil
}

// aloneTurn READs objects one by one.
func (b *bench) aloneTurn(i int, until mono.Time) error {
	c, t := b.clients[i], b.tallies[i]
	for ok := true; ok; ok = mono.Now() < until && b.ctx.Err() == nil {
		at := int(t.alone.Count()) % len(c.objects)
		o := &c.objects[at]
		clear(o.dst)
		took, err := c.alone(at)
		if err != nil {
			return err
		}
		if wrong := firstWrong(o.dst, o.Request, 0); wrong >= 0 {
			return fmt.Errorf("%w: %s, object %d alone, from byte %d of %d on", ErrWrongBytes, c.way.Name, at, wrong, len(o.dst))
		}
		t.alone.Add(took)
	}
	return nil
}

// echoTurn sends messages of one shape and waits for the answer to each.
func (b *bench) echoTurn(shape int, s Shape) func(int, mono.Time) error {
	return func(i int, until mono.Time) error {
		c, t := b.clients[i], b.tallies[i]
		var m []byte
		if !s.Payload {
			var err error
			if m, err = control(s.Bytes); err != nil {
				return err
			}
		}
		for ok := true; ok; ok = mono.Now() < until && b.ctx.Err() == nil {
			took, err := c.echo(m, s.Bytes)
			if err != nil {
				return err
			}
			t.echoes[shape].Add(took)
		}
		return nil
	}
}

// floodTurn sends messages one way.
func (b *bench) floodTurn(size, bytes int) func(int, mono.Time) error {
	return func(i int, until mono.Time) error {
		m, err := control(bytes)
		if err != nil {
			return err
		}
		count, took, err := b.clients[i].flood(m, until.Sub(mono.Now()))
		f := &b.tallies[i].floods[size]
		f.count, f.took = f.count+count, f.took+took
		return err
	}
}
