package store

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// tidy is the start of an etcd in this process: it ends what the last life left, and gives
// back the space that is not used any more, if much is.
func (s *Store) tidy(ctx context.Context) error {
	if s.cfg.Listen == "" {
		if err := s.forgetLeases(ctx); err != nil {
			return err
		}
	}
	return s.giveBack(ctx)
}

// forgetLeases: nobody else can reach this etcd, so who led or was registered there before a
// kill is gone, and need not be waited for.
func (s *Store) forgetLeases(ctx context.Context) error {
	call, cancel := s.limit(ctx)
	defer cancel()
	left, err := s.client.Leases(call)
	if err != nil {
		return s.wrong(call, "looking for leases", false, err)
	}
	for _, l := range left.Leases {
		if _, err := s.client.Revoke(call, l.ID); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return s.wrong(call, "ending leases", true, err)
		}
	}
	return nil
}

// giveBack forgets the history of a file that is half full, which nobody watches yet, shrinks
// it, and lets writes in again where it was full.
func (s *Store) giveBack(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, defragMax)
	defer cancel()
	status, err := s.client.Status(call, s.embedded.endpoint)
	if err != nil || status.DbSize < s.cfg.quota/2 {
		return s.wrong(call, "looking at the size of the file", false, err)
	}
	s.cfg.Logger.Info().Int64("bytes", status.DbSize).Msg("the control plane's state takes much space: giving back what is not used any more")
	_, err = s.client.Compact(call, status.Header.Revision, clientv3.WithCompactPhysical())
	if err == nil || errors.Is(err, rpctypes.ErrCompacted) {
		_, err = s.client.Defragment(call, s.embedded.endpoint)
	}
	if err == nil {
		_, err = s.client.AlarmDisarm(call, &clientv3.AlarmMember{})
	}
	if err != nil {
		return fmt.Errorf("giving back space: %w", err)
	}
	return nil
}
