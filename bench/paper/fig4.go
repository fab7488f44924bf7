package paper

func fig4(*Session) error { return errNotWritten }
