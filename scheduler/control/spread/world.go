package spread

// World is what is known of the schedulers, by their number, and of versions of models, by key.
type World interface {
	Told(i int) bool                 // it is linked, and has told everything
	GPUs(i int) []GPUs               // in service; each type once
	Routed(i int, key string) bool   // requests of the version go to its GPUs
	Failed(i int, key string) string // why it cannot serve the version; "": it may
	Load(i int, key string) Load
}

// GPUs are those of a type at a scheduler.
type GPUs struct {
	DeviceType string
	Count      int
	Memory     int64 // of each, bytes; 0: not known
}

// Load is what a version takes at a scheduler.
type Load struct {
	DeviceType string  // that it is served on; "": it is not
	Need       float64 // GPUs of the type
	Bytes      int64   // on each GPU; 0: not known
}

// Version is one that is wanted of a model.
type Version struct {
	Key         string   // "name/version"
	DeviceTypes []string // that it may be served on; none: any
	Bytes       int64    // of its files; 0: not known
}

// Grant is a model that a scheduler's Lead is to know from now on, or no more.
type Grant struct {
	Scheduler int
	Name      string
}

// Wait is why a model is nowhere.
type Wait struct{ Name, Reason string }

// Effects are to be carried out in the order of the fields: who moves is given before it is taken.
type Effects struct {
	Gives []Grant
	Takes []Grant
	Waits []Wait
	Notes []string // for the log
}

// Reset empties them.
func (e *Effects) Reset() { *e = Effects{} }
