// Package certmanager rewrites manifests in which cert-manager makes the certificates of
// servers, as kubebuilder and many charts write them, for servingcert. It is pure.
//
// [Migrate] returns the manifests, whose text changes where the objects do ([preview.Document.Change]):
// a Certificate becomes annotations of its Service, cert-manager.io/inject-ca-from becomes
// servingcert.dev/inject-ca-bundle, and what then serves nothing is left out. What cannot
// be converted stays as it is and is a [Finding].
package certmanager
