package parts

import (
	"context"
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/frontend/ingress"
	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/client"
)

// Repository is the control plane as the ingress's repository API asks for it.
func Repository(c *client.Client) ingress.Repository { return &controlled{c} }

type controlled struct{ control *client.Client }

// Index implements ingress.Repository.
func (r *controlled) Index(ctx context.Context) ([]ingress.Indexed, error) {
	var all []ingress.Indexed
	err := r.control.All(ctx, "", func(m api.Model) error {
		for i := range m.Versions {
			v := &m.Versions[i]
			reason, note := string(v.State), ""
			if v.State == api.Serving {
				note = v.Reason
			}
			if v.Reason != "" {
				reason += ": " + v.Reason
			}
			all = append(all, ingress.Indexed{Name: m.Name, Version: v.Version, Ready: v.State == api.Serving, Reason: reason, Note: note})
		}
		return nil
	})
	return all, repositoryError(err)
}

// Load implements ingress.Repository.
func (r *controlled) Load(ctx context.Context, model string, o ingress.Override) error {
	order := api.LoadOrder{Settings: api.Patch{SLO: (*api.Span)(o.SLO), MaxBatch: o.MaxBatch, DropPolicy: o.DropPolicy}}
	if v := o.Versions; v != nil {
		switch {
		case v.All:
			order.Policy = &api.Policy{Kind: api.PolicyAll}
		case len(v.Specific) > 0:
			order.Policy = &api.Policy{Kind: api.PolicyListed, Listed: v.Specific}
		default:
			order.Policy = &api.Policy{Kind: api.PolicyLatest, Latest: v.Latest}
		}
	}
	m, err := r.control.Load(ctx, model, order)
	for i := 0; err == nil && i < len(m.Versions); i++ {
		if version := m.Versions[i].Version; m.Wanted(version) {
			_, err = r.control.AwaitServed(ctx, model, version, nil)
		}
	}
	return repositoryError(err)
}

// Unload implements ingress.Repository.
func (r *controlled) Unload(ctx context.Context, model string) error {
	_, err := r.control.Unload(ctx, model)
	return repositoryError(err)
}

// repositoryError says it in the ingress's words.
func repositoryError(err error) error {
	var told *api.Error
	var unreachable *client.UnreachableError
	var failed *client.FailedError
	kind := error(nil)
	switch {
	case errors.As(err, &failed):
		return fmt.Errorf("%w: version %s: %s", ingress.ErrNotLoaded, failed.Version.Version, failed.Version.Reason)
	case errors.As(err, &unreachable):
		kind = ingress.ErrAway
	case !errors.As(err, &told):
		return err
	case told.Kind == api.KindNotFound:
		kind = ingress.ErrNotThere
	case told.Kind == api.KindInvalid || told.Kind == api.KindConflict:
		kind = ingress.ErrNotTaken
	case told.Kind == api.KindAway:
		kind = ingress.ErrAway
	default:
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}
