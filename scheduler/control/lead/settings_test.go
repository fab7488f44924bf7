package lead

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// slow is m/1 with an SLO of its own.
func slow() schema.Model {
	m := wants("m", 1)
	m.Settings.SLO = 3 * second
	return m
}

// Settings that are taken back while nobody leads are taken back by the next one, as are those
// that the model was loaded with; what is in force already is not ordered.
func TestSettingsTakenBack(t *testing.T) {
	for _, loadedSo := range []bool{false, true} {
		c := newCluster(t, Config{}, "a/t/0")
		c.connect()
		if !loadedSo {
			c.letters("m")
			c.run(10 * second)
		}
		c.lead.SetModel(c.now, slow())
		c.run(10 * second)
		if got := c.set["m/1"]; !loadedSo && got != int64(3*second) {
			t.Fatalf("set to %v", got)
		}
		sets := c.sets
		c.next(Config{}, "")
		c.lead.SetModel(c.now, slow())
		c.connect()
		c.run(10 * second)
		if c.sets != sets {
			t.Errorf("loaded so %v: what is in force was ordered again: %v", loadedSo, c.story)
		}
		c.next(Config{}, "m")
		c.connect()
		c.run(10 * second)
		if got := c.set["m/1"]; got != int64(second) {
			t.Errorf("loaded so %v: the SLO is %v, its own is 1 s\n%v", loadedSo, got, c.story)
		}
		sets = c.sets
		c.run(1000 * second)
		if c.sets != sets {
			t.Errorf("loaded so %v: settings are ordered again and again: %v", loadedSo, c.story)
		}
	}
}

// The same with a scheduler that was started again: it has what the model was loaded with.
func TestSettingsTakenBackOfANewScheduler(t *testing.T) {
	c := newCluster(t, Config{}, "a/t/0")
	c.connect()
	c.lead.SetModel(c.now, slow())
	c.run(10 * second)
	c.lead.Lost()
	c.lead.SetModel(c.now, wants("m", 1))
	clear(c.set)
	c.epoch++
	c.connect()
	c.run(30 * second)
	if got := c.set["m/1"]; got != int64(second) {
		t.Errorf("the SLO is %v, its own is 1 s\n%v", got, c.story)
	}
}
