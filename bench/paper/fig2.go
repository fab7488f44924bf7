package paper

func fig2(*Session) error { return errNotWritten }
