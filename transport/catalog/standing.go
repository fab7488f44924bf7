package catalog

// Standing is what a scheduler that leads a group tells its spares of what they do not hear from
// frontends and backends themselves: what the control plane has set. It is whole each time.
type Standing struct {
	Reign  uint64  `json:"reign"` // of who tells it: a later one's word counts
	Stands []Stand `json:"stands,omitempty"`
	Named  []Name  `json:"named,omitempty"` // names with shares
}

// Stand is what was said of a model.
type Stand struct {
	Key    string    `json:"key"`
	Set    *Settings `json:"set,omitempty"`    // that orders have put in force
	Digest Digest    `json:"digest,omitempty"` // of its files, as learnt
	Never  bool      `json:"never,omitempty"`  // it is routed nowhere, whoever has it: decided at Epoch and Serial, as in Told
	Epoch  uint64    `json:"epoch,omitempty"`
	Serial uint64    `json:"serial,omitempty"`
}

// DecodeStanding reads what a leader told.
func DecodeStanding(data []byte) (Standing, error) {
	return decode[Standing](data, "Standing", nil)
}
