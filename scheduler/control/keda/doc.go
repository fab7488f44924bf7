// Package keda serves the controller's advice to KEDA as an external scaler (gRPC, pull and push): a
// ScaledObject whose trigger is of type external, or external-push, keeps as many replicas as the
// advice says.
//
//	KEDA --GetMetricSpec--> "symphony-replicas-TYPE", 1 for each replica
//	     --GetMetrics-----> the advice's size, so that HPA's quotient is that size
//	     --IsActive-------> whether there is to be any; StreamIsActive tells when that changes
//
// The trigger's metadata:
//
//	scalerAddress: symphony-controller:9095
//	deviceType: a100          # may be left out where there is one
//	scheduler: tcp:sched-0:9000   # where there are several
//
// The size falls only once what is to go has nothing left, and a StatefulSet removes the highest
// ordinals, which are those. HPA leaves replicas as they are while the metric is within its
// tolerance, a tenth by default, so from 10 replicas on one is never removed: set behavior.scaleUp.tolerance and scaleDown.tolerance to 0 where
// the cluster has them, or use symphony-kube, which has none.
//
// For the lead time after its begin a controller answers Unavailable, too: replicas that load are not known yet.
//
// Only the controller that leads knows the advice. Another one answers Unavailable, says who
// leads, and ends the connection, so that KEDA dials until it finds the leader; meanwhile KEDA keeps what it had, or does what the ScaledObject's fallback says.
package keda
