// Package controller brings what package signer decides to a cluster: it gives every
// Service that asks for it a Secret with a serving certificate, and keeps it good.
//
// The unit of work is a Secret, since several Services may share one. [Setup] adds
// the controller to a manager. A reconcile gathers a signer.Situation from the caches
// (gather.go), has package signer decide, and acts (act.go): at most one write to the
// Secret, then one to the status of each Service whose condition changes. A
// certificate costs two writes and no read.
//
// What the caches hold is in cache.go: Services stripped to what a request depends
// on, opted-in Namespaces, the names of Secrets that are not ours, and the facts of
// those that are, without their keys. watch.go says which Secrets a change concerns,
// metrics.go what is counted, and skew.go keeps a signer whose clock is wrong from
// signing.
//
// Beside it, conventional.go publishes which namespaces have the conventional Secret,
// for the rotator, which may see no Secret.
package controller
