package paper

func fig15(*Session) error { return errNotWritten }
