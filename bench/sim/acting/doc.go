// Package acting closes the loop around a scaling.Group in virtual time: a load that needs GPUs, a
// cluster with its properties, and a scaler that brings replicas after a lead time, as a StatefulSet
// does.
//
//	Load(t) --> bad rate, need --> Group --> Order --> replicas, lead time later --> bad rate
//
// The cluster is a fluid: there are no requests in it, so days and weeks take seconds. While there
// are as many GPUs as are needed, hardly a request is bad (the flat top of section 3.5: 1 % at the
// edge, a hundredth of it a tenth below); with N GPUs and a need D above them 1 - N/D are.
// bench/paper holds that against simulated requests.
//
// GPUs cost from the moment they are ordered until they are removed, also while they drain, are
// dead, or never come.
package acting
