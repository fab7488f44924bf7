package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// embedded is an etcd in this process: one member, no peers.
type embedded struct {
	folder   *folder
	endpoint string
	sockets  string // folder of the Unix socket, where that is not in folder
	etcd     *embed.Etcd
	running  atomic.Bool
	died     atomic.Pointer[string] // why it ended by itself
	over     chan struct{}          // closed when died is set
}

// Tuning of the etcd in this process. Defaults are for clusters of members far apart, under
// far more load.
const (
	tick       = 200 * time.Millisecond // of raft, which has nobody to talk to; each costs a wake-up
	election   = 5 * tick               // the least that etcd takes. Leases cannot be shorter than 1.5 times this
	batchEvery = 200 * time.Millisecond // between two commits to the file; what is answered is in the log before
	snapshots  = 2000                   // requests that the log in memory keeps, at most; 10,000 of a plan's size take a GB
	quotaBytes = 1 << 30                // of the file; ten thousand models with all that is known of them take 50 MB
	requestMax = 3 << 20                // bytes; a batch of ours takes 1 MiB, or one document of at most that
	history    = "10m"                  // what a watch that was away finds without a fresh snapshot
	logSegment = 8 << 20                // bytes of a log file, written ahead: 64 MB by default, twice
	startMax   = 30 * time.Second       // from the start until it answers
	stopMax    = 10 * time.Second       // from the wish to end until it has
	socketMax  = 100                    // bytes of a socket's path; the system takes 107
	defragMax  = 5 * time.Minute        // for giving space back, at the start
)

// segmentOnce guards a variable of etcd's: it has no option for it.
var segmentOnce sync.Once

// startEmbedded starts the etcd in this process, and waits until it is ready.
func startEmbedded(ctx context.Context, c Config) (e *embedded, err error) {
	e = &embedded{over: make(chan struct{})}
	if c.Ephemeral {
		e.folder, err = tempFolder()
	} else {
		e.folder, err = openFolder(c.Data)
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("starting %s: %w", c.where(), err), e.stop(c.Logger))
		}
	}()
	listen, err := e.listenURL(c.Listen)
	if err != nil {
		return e, err
	}
	segmentOnce.Do(func() { wal.SegmentSizeBytes = logSegment })
	if err = e.launch(ctx, e.config(c, listen)); err != nil {
		return e, err
	}
	limit := time.NewTimer(startMax)
	defer limit.Stop()
	select {
	case <-e.etcd.Server.ReadyNotify():
	case err = <-e.etcd.Err():
		return e, fmt.Errorf("it ended: %w", err)
	case <-ctx.Done():
		return e, context.Cause(ctx)
	case <-limit.C:
		return e, fmt.Errorf("it is not ready after %v: is the disk very slow?", startMax)
	}
	if listen.Scheme == "http" { // with port 0 the system chose one
		e.endpoint = "http://" + e.etcd.Clients[0].Addr().String()
	}
	e.running.Store(true)
	return e, nil
}

// launch starts etcd in a goroutine of its own: what etcd calls fatal, files that it cannot
// read for example, ends a goroutine (newEtcdLog), that one or one that it waits for without
// end. Then it is left behind: whoever cannot start has little else to do.
func (e *embedded) launch(ctx context.Context, c *embed.Config) error {
	type result struct {
		etcd *embed.Etcd
		err  error
	}
	results := make(chan result, 1)
	go func() {
		defer func() { // its cleaning up does not expect to be cut short
			if why := recover(); why != nil {
				e.die(fmt.Sprint(why))
			}
		}()
		etcd, err := embed.StartEtcd(c)
		results <- result{etcd, err}
	}()
	limit := time.NewTimer(startMax)
	defer limit.Stop()
	select {
	case r := <-results:
		if r.err == nil {
			e.etcd = r.etcd
		}
		return r.err // then it has closed itself
	case <-e.over:
		return fmt.Errorf("%s: are its files whole? Restore them from a copy, or begin with an empty folder", *e.died.Load())
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-limit.C:
		return fmt.Errorf("it has not started after %v: is the disk very slow?", startMax)
	}
}

// die notes why etcd ended by itself: the first reason.
func (e *embedded) die(why string) {
	if e.died.CompareAndSwap(nil, &why) {
		close(e.over)
	}
}

func (e *embedded) config(c Config, listen url.URL) *embed.Config {
	ec := embed.NewConfig()
	ec.Name = "symphony"
	ec.Dir = filepath.Join(e.folder.path, "etcd")
	ec.ListenClientUrls, ec.AdvertiseClientUrls = []url.URL{listen}, []url.URL{listen}
	ec.ListenPeerUrls = nil // a name is needed for the only member, an address is not
	ec.InitialCluster = ec.InitialClusterFromName(ec.Name)
	ec.TickMs, ec.ElectionMs = uint(tick.Milliseconds()), uint(election.Milliseconds())
	ec.SnapshotCount, ec.SnapshotCatchUpEntries = snapshots, snapshots/10
	ec.BackendBatchInterval = batchEvery
	ec.QuotaBackendBytes, ec.MaxRequestBytes = c.quota, requestMax
	ec.AutoCompactionMode, ec.AutoCompactionRetention = embed.CompactorModePeriodic, history
	ec.EnableGRPCGateway, ec.EnablePprof = false, false
	ec.DowngradeCheckTime = time.Hour
	ec.CompactHashCheckTime = time.Hour
	ec.UnsafeNoFsync = e.folder.temp // nobody will read it again
	ec.ZapLoggerBuilder = embed.NewZapLoggerBuilder(newEtcdLog(c.Logger, &e.running, e.die))
	return ec
}

// listenURL is the loopback address, or a Unix socket that only this user can reach.
func (e *embedded) listenURL(address string) (url.URL, error) {
	if address != "" {
		host, port, err := net.SplitHostPort(address)
		if host == "localhost" {
			host = "127.0.0.1"
		}
		return url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}, err
	}
	dir, err := filepath.Abs(filepath.Join(e.folder.path, "socket"))
	if err != nil {
		return url.URL{}, err
	}
	if len(dir) > socketMax {
		if dir, err = os.MkdirTemp("", "symphony-"); err != nil {
			return url.URL{}, err
		}
		e.sockets = dir
	} else if err = os.MkdirAll(dir, 0o700); err != nil {
		return url.URL{}, err
	}
	path := filepath.Join(dir, "etcd")
	e.endpoint = "unix://" + path
	return url.URL{Scheme: "unix", Path: path}, nil
}

// stop ends it and gives its folder up.
func (e *embedded) stop(log zerolog.Logger) error {
	e.running.Store(false)
	var err error
	if e.etcd != nil {
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.etcd.Close()
		}()
		limit := time.NewTimer(stopMax)
		defer limit.Stop()
		select {
		case <-done:
		case <-limit.C: // it died of something: its goroutines wait for one that is gone
			log.Error().Str("part", "etcd").Dur("after", stopMax).Msg("the etcd in this process does not end; what it had answered is on the disk")
		}
	}
	if e.sockets != "" {
		err = os.RemoveAll(e.sockets)
	}
	return errors.Join(err, e.folder.close())
}
