// Package trust keeps the CA bundle wherever clients look for it: in a ConfigMap
// of every opted-in namespace, in the ConfigMaps, and in the caBundle of the webhook
// configurations, APIServices and CustomResourceDefinitions, that ask for it, and
// in a ClusterTrustBundle.
//
// # Source
//
// The bundle is key ca.crt of ConfigMap servingcert-ca-status in servingcert's
// own namespace, which the signer writes. Nothing here reads a Secret. What is
// written is the source's content normalized (see [pki.Bundle]) and without
// roots that have expired. A source that is missing, empty or damaged changes no
// target: what they hold stays, and log, event, metric and trust status say so.
// Readiness does not: it answers whether this process can work, and on a fresh
// install the signer may well come second.
//
// # Targets
//
// [Targets] lists them. A [Target] is one kind of place: how its objects are
// found, and pure functions that say what an object holds ([Target.Judge]) and
// which server-side-apply document sets that one field ([Target.Document]). One
// reconciler serves all kinds: gather from caches, decide, act. So a new kind is
// one value in that list.
//
// Each kind has a cache and a controller of its own, which begin when the API
// server lets the kind be listed and watched: one that it does not have, or for
// which there are no rights, keeps no other from being kept.
//
// Every write is a server-side apply, with force, of that one field under
// [FieldManager], and is made only when the target differs: at rest there are
// none. Everything else in the object stays its owner's. Where owning the field
// would tie their hands, ownership is given up after the write ([Target.Release]).
// What is no longer asked for (a label or an annotation taken away, a namespace being
// deleted) is left as it is; no object is ever deleted.
//
// # Outcome
//
// ConfigMap servingcert-trust-status says which bundle the targets hold and
// which of them do not (see [Status]): the signer's evidence that a new CA is
// trusted before it signs. Targets that refuse get an event, count in a metric by
// kind and reason, are tried again within [Config.MaxBackoff], and hold up no
// other.
package trust
