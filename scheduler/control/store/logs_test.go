package store

import (
	"errors"
	"testing"

	"go.uber.org/zap"
)

// That something was slow is for whoever debugs; what is wrong is said at the default level.
func TestSlownessIsDebugging(t *testing.T) {
	t.Parallel()
	s, log := open(t, Config{Ephemeral: true})
	etcd := s.embedded.etcd.GetLogger()
	for _, text := range []string{"apply request took too long", "slow fdatasync", "waiting for ReadIndex response took too long, retrying",
		"leader failed to send out heartbeat on time; took too long, leader is overloaded likely from slow disk"} {
		etcd.Warn(text)
		if log.count(`"level":"debug","part":"etcd","message":"`+text) != 1 {
			t.Errorf("%q is no debugging", text)
		}
	}
	etcd.Error("failed to update storage version", zap.Error(errors.New("cannot detect storage schema version: missing term information")))
	if log.count(`"level":"error"`) != 0 {
		t.Error("a first second is an error")
	}
	etcd.Warn("database space exceeded")
	etcd.Error("slow disk: none any more")
	if log.count(`"level":"warn","part":"etcd","message":"database space exceeded"`) != 1 || log.count(`"level":"error","part":"etcd","message":"slow disk: none any more"`) != 1 {
		t.Error("what is wrong is not said")
	}
}
