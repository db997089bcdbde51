// Package trust decides where the CA bundle must be written so that clients find it:
// in a ConfigMap in every opted-in namespace, in a ClusterTrustBundle, and in every
// object that requests it: ConfigMaps, and the caBundle fields of webhook
// configurations, APIServices and CustomResourceDefinitions. It is pure. Package
// controller, below it, reads, writes and watches; package target, below that, has a
// file for each kind of target.
//
// # Source
//
// The bundle is key ca.crt of ConfigMap servingcert-ca-status in servingcert's
// own namespace, which the signer writes. Nothing here reads a Secret. Targets get the
// source's content normalized (see [pki.Bundle]) and without expired roots
// ([ReadSource]). If the source is missing, empty or damaged, the targets keep what
// they hold, and log, event, metric and trust status report it. Readiness does not: it
// reports whether this process can work, and on a fresh install the signer may start
// later.
//
// # Targets
//
// A target is an object that must hold the bundle: because its annotations request it
// ([RequestOf]), or because there is one in every opted-in namespace, or one in the
// cluster. Whether it holds the bundle is an [Evaluation].
//
// For each target [Decide] returns a [Decision] from a [Situation]: whether to write,
// and why, or to release the field. After the write, [Conclude] returns the [Record]
// to keep of the target, what to report, and when to retry. All kinds of target share
// these two.
//
// Every write is a server-side apply, with force, of one field under [FieldManager],
// and only if the target differs. Everything else in the object belongs to its owner.
// Where owning the field would restrict the owner, ownership is released after the
// write. What is no longer requested (a label or an annotation was removed, a
// namespace is being deleted) is left unchanged; no object is ever deleted.
//
// # Trust status
//
// ConfigMap servingcert-trust-status reports which bundle the targets hold and which
// of them do not ([DecideStatus]; [api.TrustStatus] is its format). The signer reads
// it before a new CA signs. [Awaited] decides whether a new CA waits for a target
// without the bundle indefinitely, for a limited time, or not at all. Targets that
// refuse the bundle get an event, count in a metric by kind and reason, are retried
// with a bounded backoff, and do not delay other targets.
package trust
