// Package controller carries out the decisions of package signer in a cluster: it writes a
// Secret with a serving certificate for every Service that requests one, and renews it.
//
// The unit of work is a Secret, since several Services may share one. [Setup] adds
// the controller to a manager. A reconcile gathers a signer.Situation from the caches
// (gather.go), has package signer decide, and acts (act.go): at most one write to the
// Secret, then one to the status of each Service whose condition changes. A
// certificate costs two writes and no read.
//
// The caches hold Services stripped to the fields that a request depends on (services.go),
// opted-in Namespaces, the names of unmanaged Secrets, and the facts of managed Secrets
// without their keys (cache.go). watch.go maps a change to the Secrets that it affects.
// skew.go stops signing while the clock is wrong. notices.go emits events on Services in
// namespaces that are not opted in.
//
// conventional.go publishes which namespaces have the conventional Secret, for the
// rotator, which may not read Secrets.
package controller
