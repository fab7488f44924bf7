package paper

func fig13(*Session) error { return errNotWritten }
