package main

// stays are the refusals that no caller looks at, and why that is right.
func stays() []stay {
	return append(linkStays(), partStays()...)
}

// linkStays are of the transports themselves.
func linkStays() []stay {
	const ping = "a ping or pong: where the box is overfull the next one will do, and a link without any is closed as silent"
	const parting = "the word that says why a link ends: where the link does not take it the end, which follows, has to do"
	return []stay{
		{"transport/tcp/link.go", "link.fail", "Outbox.Reply", 0, parting},
		{"transport/tcp/link.go", "link.pulse", "Outbox.Ping", 0, ping},
		{"transport/tcp/receive.go", "link.own", "Outbox.Ping", 0, ping},
		{"transport/tcp/write.go", "direct.try", "writeNow", 0, "what was not written stays with the outbox, whose writer meets the error again"},
		{"transport/loopback/deliver.go", "end.frame", "Outbox.Ping", 0, ping},
		{"transport/loopback/end.go", "end.pulse", "Outbox.Ping", 0, ping},
		{"transport/rdmalink/inbound.go", "frames.frame", "Outbox.Ping", 0, ping},
		{"transport/rdmalink/link.go", "link.pulse", "Outbox.Ping", 0, ping},
		{"transport/rdmalink/link.go", "link.fail", "Link.Send", 0, parting},
		{"transport/rdmalink/life.go", "life.answer", "Link.Send", 0, "it says why there is no lane: without it the dialler gives the lane up after Config.Attempt"},
		{"transport/rdmalink/outbound.go", "outbound.post", "Conn.Post", 0, "of a lane that has failed: its messages stay in its ring, and are sent again over TCP"},
		{"transport/rdmalink/reads.go", "reads.reroute", "Link.Read", 0, "a refused READ calls its Done with the error, too"},
	}
}

// partStays are of the packages that use links and queues.
func partStays() []stay {
	const farewell = "a farewell: the link's end, which follows, says the same"
	const reign = "only a writer that has ended refuses, and its reign is over: the next leader reads what the store has"
	return []stay{
		{"backend/executor/fetch.go", "order.issue", "Link.Read", 0, "a refused READ calls its Done with the error, too"},
		{"backend/executor/fetch.go", "order.readWhenUp", "Link.Read", 0, "a refused READ calls its Done with the error, too"},
		{"backend/telemetry/unit.go", "unit.report", "channel", 0, "a flood of XIDs: 64 wait for the judge, the last one is in the metrics, and samples say whether the device works"},
		{"frontend/recording/recording.go", "Recorder.Add", "File.Write", 0, `linefile.File.Write has no error: it counts the lines that it loses (symphony_recorded_requests_total{what="lost"})`},
		{"frontend/labels.go", "labels.ask", "Link.SendPayload", 0, "a question that is asked again, until the caller's context ends, which gets an error"},
		{"frontend/uplink.go", "uplink.leave", "Link.Send", 0, farewell},
		{"scheduler/control/controller/way.go", "way.close", "Keeper.Send", 0, farewell},
		{"scheduler/server/server.go", "Server.Drain", "Link.Send", 3, farewell},
		{"scheduler/server/group.go", "group.perform", "Link.Send", 0, "a heartbeat: one that cannot be sent does not arrive, which is what heartbeats tell"},
		{"scheduler/control/controller/leading.go", "leading.giveUp", "Writer.Delete", 3, reign},
		{"scheduler/control/controller/link.go", "link.isDown", "link.addLocked", 0, "that a link is lost is taken even where the box of news is full"},
		{"scheduler/engine/tuning.go", "tuning.paused", "feed.tell", 0, "a pause is the tuner's alone: a feed that is full loses requests, too, which it counts as missed"},
		{"scheduler/watch/ui/viewer.go", "Hub.sent", "channel", 0, "memory to use again: where enough of it is spare it is the collector's"},
		{"cmd/symphony/parts/tellscheduler.go", "asked.end", "channel", 0, "the first outcome counts: what comes behind it is the link's end"},
		{"bench/netbench/client.go", "listening.Receive", "channel", 0, "a pong that no ping waits for: the next ping finds the one that is in the channel already"},
		{"bench/netbench/incast.go", "client.issue", "Link.Read", 0, "a refused READ calls its Done with the error, too"},
	}
}
