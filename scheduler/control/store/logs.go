package store

import (
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// etcdLog passes what the etcd in this process logs on to our log: errors and warnings, a
// few of each kind a minute. Only debugging are those of its start and end, because each start
// warns of what is meant to be so (one member, no peers, no TLS on a Unix socket), and warnings
// that something was slow: no request waits for it, and where it is too slow calls fail and health
// says so.
type etcdLog struct {
	log    zerolog.Logger
	fields []zapcore.Field

	running *atomic.Bool        // between start and end
	died    func(reason string) // told of what etcd calls fatal
}

// newEtcdLog makes etcd's logger. etcd ends the process on what it calls fatal, a full disk
// for example. Here that would end serving for the sake of the control plane, so only the
// goroutine ends, and the store says that it is away.
func newEtcdLog(log zerolog.Logger, running *atomic.Bool, died func(string)) *zap.Logger {
	core := zapcore.NewSamplerWithOptions(&etcdLog{log: log, running: running, died: died}, time.Minute, 3, 0)
	return zap.New(core, zap.WithFatalHook(endGoroutine{died}), zap.WithPanicHook(endGoroutine{died}))
}

func (l *etcdLog) Enabled(level zapcore.Level) bool { return level >= zapcore.WarnLevel }

func (l *etcdLog) With(fields []zapcore.Field) zapcore.Core {
	with := *l
	with.fields = append(l.fields[:len(l.fields):len(l.fields)], fields...)
	return &with
}

func (l *etcdLog) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if l.Enabled(e.Level) {
		return ce.AddCore(e, l)
	}
	return ce
}

func (l *etcdLog) Write(e zapcore.Entry, fields []zapcore.Field) error {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range l.fields {
		f.AddTo(enc)
	}
	for _, f := range fields {
		f.AddTo(enc)
	}
	reason, _ := enc.Fields["error"].(string)
	level := zerolog.WarnLevel
	switch {
	case !l.running.Load() || e.Level == zapcore.WarnLevel && slow(e.Message) || strings.Contains(reason, tooEarly):
		level = zerolog.DebugLevel // what makes a start fail is the error that it returns
	case e.Level > zapcore.WarnLevel:
		level = zerolog.ErrorLevel
	}
	l.log.WithLevel(level).Fields(enc.Fields).Str("part", "etcd").Msg(e.Message)
	return nil
}

func (l *etcdLog) Sync() error { return nil }

// endGoroutine is what happens instead of the process's end.
type endGoroutine struct{ died func(reason string) }

func (h endGoroutine) OnWrite(e *zapcore.CheckedEntry, _ []zapcore.Field) {
	h.died(e.Message)
	runtime.Goexit()
}

// tooEarly is in an error of etcd's that an empty folder may have in its first second: what it asks
// for is not on the disk yet, and it asks again.
const tooEarly = "missing term information"

// slow is whether a warning of etcd's is that something took long: "apply request took too long",
// "slow fdatasync", "leader failed to send out heartbeat on time; took too long, ...".
func slow(message string) bool {
	return strings.HasPrefix(message, "slow ") || strings.Contains(message, "took too long") || strings.Contains(message, "slow network")
}
