package paper

func fig6b(*Session) error { return errNotWritten }
