package spread

// World is what is known of the schedulers, by their number, and of versions of models, by key.
type World interface {
	Told(i int) bool                 // it is linked, and has told everything
	GPUs(i int) []GPUs               // in service; each type once
	Routed(i int, key string) bool   // requests of the version go to its GPUs
	Failed(i int, key string) string // why it cannot serve the version; "": it may
	Load(i int, key string) Load
	Size(i int, key, deviceType string) int64 // bytes that a GPU of the type must have for the version alone; 0: not known there
}

// GPUs are those of a type at a scheduler.
type GPUs struct {
	DeviceType string
	Count      int
	Memory     int64 // of the smallest, bytes; 0: not known
	Largest    int64 // of the one with most, bytes: no version that takes more can be on any; 0: no bound
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
	Gives    []Grant
	Takes    []Grant
	Waits    []Wait
	Notes    []string // for the log
	Warnings []string // likewise: what people wanted is not done
}

// Reset empties them.
func (e *Effects) Reset() { *e = Effects{} }
