package paper

func fig5(*Session) error { return errNotWritten }
