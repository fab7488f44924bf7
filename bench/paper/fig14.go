package paper

func fig14(*Session) error { return errNotWritten }
