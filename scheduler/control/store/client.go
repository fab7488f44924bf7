package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

const (
	// dialEvery bounds the wait between two tries to connect: gRPC's own grows to two
	// minutes, and what waits for etcd should go on soon after its return.
	dialEvery = time.Second
	dialMax   = 2 * time.Second
	// pingEvery finds connections that died without a word; gRPC takes no less.
	pingEvery = 10 * time.Second
	pingMax   = 3 * time.Second
	tryAgain  = 40      // times 25 ms, while there is no connection: what ends sooner says why there is none
	callMax   = 4 << 20 // bytes sent; etcd refuses more than 1.5 MiB by default
)

// newClient makes the client. It does not wait for a connection, unless there is a user: then
// the client begins with logging in.
func newClient(ctx context.Context, c Config, endpoints []string) (*clientv3.Client, error) {
	cc := clientv3.Config{
		Context: ctx, Endpoints: endpoints, Username: c.User, Password: string(c.Password),
		DialTimeout: c.Timeout, DialKeepAliveTime: pingEvery, DialKeepAliveTimeout: pingMax, MaxCallSendMsgSize: callMax,
		Logger: zap.NewNop(), // it warns with each try that fails; health says it once
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(remember), grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: dialMax,
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: dialEvery}})},
	}
	if c.dial != nil {
		cc.DialOptions = append(cc.DialOptions, grpc.WithContextDialer(c.dial))
	}
	if !c.embedded() && secure(endpoints[0]) {
		var err error
		if cc.TLS, err = c.tls(); err != nil {
			return nil, err
		}
	}
	return clientv3.New(cc)
}

// tls reads the files. The own certificate is read again for each connection, so that a
// renewed one is used without a restart.
func (c *Config) tls() (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("control.ca: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("control.ca: %s holds no certificate in PEM", c.CA)
		}
	}
	if c.Cert != "" {
		if _, err := tls.LoadX509KeyPair(c.Cert, c.Key); err != nil {
			return nil, fmt.Errorf("control.cert, control.key: %w", err)
		}
		t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
			return &pair, err
		}
	}
	return t, nil
}
