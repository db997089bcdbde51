// Package trust decides where the CA bundle must be written so that clients find
// it: into a ConfigMap of every opted-in namespace, into the ConfigMaps, and the
// caBundle of the webhook configurations, APIServices and
// CustomResourceDefinitions, that request it, and into a ClusterTrustBundle. It is
// pure. Package controller, below it, reads, writes and watches; package target,
// below that, has a file for each kind of target.
//
// # Source
//
// The bundle is key ca.crt of ConfigMap servingcert-ca-status in servingcert's
// own namespace, which the signer writes. Nothing here reads a Secret. What is
// written is the source's content normalized (see [pki.Bundle]) and without
// roots that have expired ([ReadSource]). A source that is missing, empty or
// damaged changes no target: they keep what they hold, and log, event, metric and
// trust status report it. Readiness does not: it reports whether this process can
// work, and on a fresh install the signer may well come second.
//
// # Targets
//
// A target is an object that is requested to hold the bundle: by its annotations
// ([RequestOf]), or because there is one in every opted-in namespace, or one in
// the cluster. What it holds is a [Judgement].
//
// For each target [Decide] returns a [Decision] from a [Situation]: whether to
// write, and why, or to give the field up. After the write, [Conclude] returns
// what follows from it: the [Record] that is kept of the target, what to report,
// and when to try again. All kinds of target share these two.
//
// Every write is a server-side apply, with force, of one field under
// [FieldManager], and is made only when the target differs: at rest there are
// none. Everything else in the object stays its owner's. Where owning the field
// would tie their hands, ownership is given up after the write. What is no longer
// requested (a label or an annotation was removed, a namespace is being deleted) is
// left as it is; no object is ever deleted.
//
// # Trust status
//
// ConfigMap servingcert-trust-status says which bundle the targets hold and which
// of them do not ([DecideStatus], and [api.TrustStatus] for its format): the
// signer's evidence that a new CA is trusted before it signs. For each target that
// does not hold it, [Awaited] says whether a new CA waits for it without limit, for a
// limited time, or not at all. Targets that refuse
// the bundle get an event, count in a metric by kind and reason, are tried again
// with a bounded backoff, and hold up no other target.
package trust
