package paper

func fig1(*Session) error { return errNotWritten }
