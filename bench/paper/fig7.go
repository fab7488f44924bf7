package paper

func fig7(*Session) error { return errNotWritten }
