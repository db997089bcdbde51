// Package certmanager creates and interprets CertificateRequests of cert-manager.io/v1, so that
// any cert-manager issuer can sign. It has types of its own with the few fields that it uses, and
// does not import cert-manager.
//
// A request is an object in the signer's own namespace. [NameOf] is deterministic for a
// certificate, so a signer that was restarted finds the request of its predecessor. [Answer] is
// the result of a request. [Probing] determines the issuer's CA from a certificate that it
// signed, since cert-manager has no other record of it.
//
// The package is pure. Package client below it creates, reads and deletes the requests.
package certmanager
