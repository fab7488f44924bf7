package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// Config says where the state is. Exactly one of Data, Ephemeral and Endpoints is set.
type Config struct {
	Data      string // folder of the etcd in this process, made if it is not there
	Ephemeral bool   // an etcd in this process, in memory, gone at the end
	Listen    string // loopback host:port of the etcd in this process; empty: a Unix socket in its folder

	Endpoints []string // of an etcd cluster: "https://host:2379"
	CA        string   // file of the authorities that its certificates come from; empty: the system's
	Cert, Key string   // files of this process's certificate, where the cluster wants one; read again for each connection
	User      string   // where the cluster wants one
	Password  Secret

	Prefix   string                // of all keys, with a slash at both ends; empty: PrefixDefault
	Timeout  time.Duration         // of a call; 0: 5 s
	LeaseTTL time.Duration         // how long a leader or a backend that is gone is still believed in; 0: 10 s
	Logger   zerolog.Logger        // its zero value is silent
	Metrics  prometheus.Registerer // nil: none

	// Waiting is told why Open waits for an etcd elsewhere, once for a reason. Where it is there, Open
	// waits also for one that has come and cannot be used (yet). nil: nobody is told.
	Waiting func(why error)

	// Replaced by tests.
	version    int // of the schema, with its migrations; 0: schema.Version
	migrations []schema.Migration
	quota      int64 // of the etcd in this process, bytes; 0: quotaBytes
	dial       func(ctx context.Context, address string) (net.Conn, error)
}

// PrefixDefault begins all keys.
const PrefixDefault = "/symphony/"

// Secret is text that is never printed.
type Secret string

func (s Secret) String() string               { return "(secret)" }
func (s Secret) GoString() string             { return "(secret)" }
func (s Secret) MarshalText() ([]byte, error) { return []byte("(secret)"), nil }

// Bounds and defaults of a configuration.
const (
	timeoutDefault = 5 * time.Second
	leaseDefault   = 10 * time.Second
	leaseMin       = 2 * time.Second // etcd gives no shorter ones
	leaseMax       = 10 * time.Minute
	endpointsMax   = 16
	prefixMax      = 256
)

// embedded is whether the etcd is in this process.
func (c *Config) embedded() bool { return len(c.Endpoints) == 0 }

// withDefaults fills in what was left out.
func (c Config) withDefaults() Config {
	if c.Prefix == "" {
		c.Prefix = PrefixDefault
	}
	if c.Timeout == 0 {
		c.Timeout = timeoutDefault
	}
	if c.LeaseTTL == 0 {
		c.LeaseTTL = leaseDefault
	}
	if c.quota == 0 {
		c.quota = quotaBytes
	}
	if c.version == 0 && c.migrations == nil {
		c.version, c.migrations = schema.Version, schema.Migrations()
	}
	return c
}

// Check says everything that is wrong, each error with its key below "control".
func (c Config) Check() error {
	c = c.withDefaults()
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	where := 0
	for _, set := range []bool{c.Data != "", c.Ephemeral, len(c.Endpoints) > 0} {
		if set {
			where++
		}
	}
	need(where > 0, "nothing says where the state is kept: set data (a folder), ephemeral, or endpoints (an etcd cluster)")
	need(where < 2, "data, ephemeral and endpoints exclude each other: set one of them")
	need(c.Listen == "" || c.embedded(), "listen is for the etcd in this process, and endpoints name another one: leave one of them out")
	if c.Listen != "" {
		need(loopback(c.Listen), "listen: %q is no loopback host:port, like 127.0.0.1:2379: the etcd in this process is for this machine; for others run etcd on its own and set endpoints", c.Listen)
	}
	need((c.Cert == "") == (c.Key == ""), "cert and key belong together: set both or none")
	need((c.User == "") == (c.Password == ""), "user and password belong together: set both or none")
	tls := c.CA != "" || c.Cert != "" || c.Key != ""
	need(!c.embedded() || !tls && c.User == "", "ca, cert, key, user and password are for endpoints: the etcd in this process is reached by this user only")
	need(len(c.Endpoints) <= endpointsMax, "endpoints: %d, at most %d", len(c.Endpoints), endpointsMax)
	for i, e := range c.Endpoints {
		if err := checkEndpoint(e, tls); err != nil {
			errs = append(errs, err)
		}
		need(slices.Index(c.Endpoints, e) == i, "endpoints: %q is there twice", e)
		need(secure(e) == secure(c.Endpoints[0]), "endpoints: some are http and some https: a cluster is one or the other")
	}
	need(len(c.Prefix) >= 3 && len(c.Prefix) <= prefixMax && strings.HasPrefix(c.Prefix, "/") && strings.HasSuffix(c.Prefix, "/"),
		"prefix: %.40q must begin and end with a slash and have a name between, like %s", c.Prefix, PrefixDefault)
	need(c.Timeout >= 10*time.Millisecond && c.Timeout <= time.Minute, "timeout: %v, must be 10ms to 1m", c.Timeout)
	need(c.LeaseTTL >= leaseMin && c.LeaseTTL <= leaseMax, "lease: %v, must be %v to %v", c.LeaseTTL, leaseMin, leaseMax)
	return errors.Join(errs...)
}

func secure(endpoint string) bool { return strings.HasPrefix(endpoint, "https://") }

// checkEndpoint refuses what the client would misunderstand: it takes http as "without
// certificates", even where they are configured.
func checkEndpoint(e string, tls bool) error {
	u, err := url.Parse(e)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Port() == "" || u.Path != "" || u.User != nil {
		return fmt.Errorf("endpoints: %q is no address of an etcd: write https://host:2379", e)
	}
	if tls && u.Scheme == "http" {
		return fmt.Errorf("endpoints: %q is http, and certificates are configured, which it would not use: write https", e)
	}
	return nil
}

// loopback is whether a host:port can be reached from this machine only.
func loopback(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// where names the etcd in errors and log lines.
func (c *Config) where() string {
	switch {
	case !c.embedded():
		return "etcd at " + strings.Join(c.Endpoints, ", ")
	case c.Ephemeral:
		return "the etcd in this process (in memory)"
	}
	return "the etcd in this process (" + c.Data + ")"
}
