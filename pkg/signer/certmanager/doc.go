// Package certmanager is what the signer asks of cert-manager, and what it makes of the
// answers: certificates by whatever issuer the cluster has, by a CertificateRequest of
// cert-manager.io/v1. It has the few fields that are used in types of its own, and does not
// import cert-manager.
//
// A request is an object in the signer's own namespace. [NameOf] gives each certificate that
// is wanted one name, so that a signer that was restarted finds what the one before it has
// asked for. [Answer] reads what became of a request, and [Probing] says which CA the issuer
// is, of which cert-manager has no other record.
//
// The package is pure. Package client below it makes the requests, reads and deletes them.
package certmanager
