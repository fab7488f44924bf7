package paper

func fig10(*Session) error { return errNotWritten }
