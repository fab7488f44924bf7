package plan

// Facts are the world as it is: what backends and the scheduler say, not what anybody wants.
type Facts struct {
	GPUs   []GPU
	Models []Model
}

// GPU is one device and what is in its memory.
type GPU struct {
	Name       string // "host1/emulated/0": unique
	Host       string // for Limits.LoadsHost; "": what Name has before its first slash
	DeviceType string
	State      State
	In         string   // sub-cluster; "" unless Serving or Draining
	Idle       bool     // it serves and has nothing to do, so it may measure
	Resident   []string // models that are loaded and warm
	Loading    []string // models that a backend is loading, whoever asked for it
	Memory     int64    // bytes for models; 0: no limit
	Leaving    bool     // it is to go: it joins nothing, and leaves where it is as soon as the plan does without it
}

// State of a GPU.
type State uint8

const (
	// Free: in no sub-cluster.
	Free State = iota
	// Serving: it gets the requests of its sub-cluster.
	Serving
	// Draining: it gets nothing new, and ends what it has.
	Draining
	// Out: it is gone, or nothing may be done with it.
	Out
)

func (s State) String() string {
	switch s {
	case Free:
		return "free"
	case Serving:
		return "serving"
	case Draining:
		return "draining"
	case Out:
		return "out"
	}
	return "unknown"
}

// Model is one version of a model.
type Model struct {
	Key             string // "name/version"
	Routed          string // the sub-cluster that its requests go to; "": nowhere
	Static, Dynamic int64  // bytes on a GPU: while it is resident; beside it while a batch of it runs
	Profiles        []Profile
	Settings        Settings  // in force
	Failed          []Failure // what backends could not do, and have not been told to forget
	Held            string    // why nothing of it is to be tried now, though the plan has it; "": it may be
}

// Profile is a device type that a model has been measured on.
type Profile struct {
	DeviceType string
	Need       float64 // GPUs of the type that its present rate would keep busy
}

// Failure is a GPU that could not load or measure a model.
type Failure struct {
	GPU    string
	Reason string
	Tries  int
}
