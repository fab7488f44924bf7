package api

import "context"

// Control carries the API's calls out. Arguments are checked already (check.go) but for what
// only the models themselves can tell. Errors are *Error, or any other for what is a fault of
// the control plane.
//
// Package fakecontrol has the suite that every Control passes.
type Control interface {
	Models
	Plans
	// State says who leads and whether the store answers; it does so without the store.
	State(ctx context.Context) (Status, error)
	// Advice says how many GPUs there should be; only the controller that leads knows.
	Advice(ctx context.Context) (Advice, error)
}

// Models are the calls on models. Those that change one return it as it is then.
type Models interface {
	// List is a page of the models.
	List(ctx context.Context, q Query) (Page, error)
	// Model is one; KindNotFound.
	Model(ctx context.Context, name string) (Model, error)
	// Await is Model once its revision is another than since, or when ctx ends: then as it is.
	Await(ctx context.Context, name string, since uint64) (Model, error)
	// PutVersion adds a version, and the model with its first one: to be served, by the policy
	// latest. A version that is there gets the settings; with another source or digest it is
	// KindConflict: versions do not change. (No digest is no other digest.)
	PutVersion(ctx context.Context, name, version string, spec VersionSpec) (Model, error)
	// SetFiles says that a version's files are others, or elsewhere: what was learnt of them is
	// forgotten. While the version is served it is KindConflict, but with the digest of the files
	// that are served.
	SetFiles(ctx context.Context, name, version string, files Files) (Model, error)
	// DeleteVersion takes a version away, also from the list of a policy. While there are
	// others, one with a share of the requests, and the only one of a list, is KindConflict.
	// The last one's end is the model's: what is returned has no versions.
	DeleteVersion(ctx context.Context, name, version string) (Model, error)
	// DeleteModel takes all versions away.
	DeleteModel(ctx context.Context, name string) error
	// SetSettings changes settings of the model, or of one version.
	SetSettings(ctx context.Context, name, version string, patch Patch) (Model, error)
	// SetPolicy says which versions are served.
	SetPolicy(ctx context.Context, name string, p Policy) (Model, error)
	// SetShares says which versions answer; a version that is not there is KindInvalid, one
	// that failed KindConflict. Shares that are as they were change nothing.
	SetShares(ctx context.Context, name string, shares []Share) (Model, error)
	// RollBack returns to the shares before; KindConflict where there are none.
	RollBack(ctx context.Context, name string) (Model, error)
	// Load says that the model is to be served, and tries versions that failed again at once:
	// what is returned has none of those as failed. Unload says that it is not to be served.
	Load(ctx context.Context, name string, order LoadOrder) (Model, error)
	Unload(ctx context.Context, name string) (Model, error)
}

// Plans are the calls on plans.
type Plans interface {
	Plan(ctx context.Context) (Plan, error)
	History(ctx context.Context) (History, error)
	// Diff makes a plan and says what it would change.
	Diff(ctx context.Context) (Diff, error)
	// Apply makes a plan and rolls it out, also while epochs are paused.
	Apply(ctx context.Context) (Plan, error)
	// Put rolls out a plan of the caller's own. It holds, with what the catalogue becomes
	// meanwhile, until Apply or Resume; a model that is not to be served is KindInvalid.
	Put(ctx context.Context, spec PlanSpec) (Plan, error)
	// Pause makes no more plans until Resume, but for changes of the catalogue. A roll-out that is
	// under way goes on.
	Pause(ctx context.Context, why string) (Epochs, error)
	Resume(ctx context.Context) (Epochs, error)
}
