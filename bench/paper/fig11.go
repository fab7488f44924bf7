package paper

func fig11(*Session) error { return errNotWritten }
