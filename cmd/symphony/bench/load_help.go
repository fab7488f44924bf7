package bench

// Help is shown by --help.
func (loadCmd) Help() string {
	return `Exit status 1 if interrupted. Exit status 1 also when the run says nothing about the server (INVALID) or an answer is missing (BROKEN); 0 also when a model is over its SLO. Ctrl-C ends the run and prints what was counted by then.

"bad by reason" counts requests that were not served in time:

  deadline        dropped before execution: no batch could be in time
  shed            dropped under overload, to keep batches large
  expired         no answer by the deadline
  late            answered after the deadline
  full            refused at the door, overloaded: a queue was full
  unavailable     no backend serves the model now
  backend_lost    its backend died, with too little time for another
  connection, http_STATUS, no_answer, no_outputs
                  over HTTP: the server's failure or the way's
  generator_late  never sent, out of time: the load generator's own fault
  generator_full  never sent, too many were open: likewise (--outstanding)`
}
