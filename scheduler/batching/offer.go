package batching

import "github.com/symphony-serving/symphony/transport/mono"

// Offer is a GPU for a model, with what the rank knows of the competition.
type Offer struct {
	FreeAt mono.Time // the GPU is free from then on; mono.Past: at once
	GPUs   int       // there are; 0: not known
	// Share of them in proportion to the GPU time that the model wanted lately, of
	// all that was wanted: for its batches, and for what it lost; 0: not known.
	Share Share
	// Rivals: other models were granted GPUs since this model's last grant.
	Rivals bool
	// Crowded: far more is wanted of all GPUs than they have, so that a good part of all requests is lost whatever is done.
	Crowded bool
	// Full: nearly all GPUs are needed even in the batches of the whole deferral, and a thousandth or more of what is wanted is lost.
	Full bool
	// Idle: the GPU was free when the candidate's window opened.
	Idle bool
	// Others are GPUs beside this one that have nothing to do; 0: none, or not known, or they may not have the model.
	Others int
}
