package batching

// Share is a number of GPUs that a model can count on, in 1/1024 of a GPU.
type Share int

// OneGPU is the Share of a whole GPU.
const OneGPU Share = 1024

// ShareOf is an equal share of the GPUs among models; at least a sixteenth.
func ShareOf(gpus, models int) Share {
	return max(OneGPU/16, OneGPU*Share(gpus)/Share(max(1, models)))
}
