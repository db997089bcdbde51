package api

// AnnotationIdentity gives the programs of the pod, with the value "true", a client certificate that shows
// its ServiceAccount, with its key, and the roots that verify those of others.
const AnnotationIdentity = Domain + "/identity"

// IdentityBundle is the file with the key of an identity, then its certificate and chain. The name is that
// of SPIFFE's Filesystem Delivery (https://github.com/spiffe/spiffe/pull/376, the review of 2026-08-13), and
// not final.
const IdentityBundle = "credential-bundle.private-key.x509.pem"

// IdentityRoots returns the file with the roots that verify identities of the trust domain. The name is
// that of the same draft.
func IdentityRoots(trustDomain string) string { return trustDomain + ".spiffe-trust-bundle.x509.pem" }

// Environment variables of containers with an identity.
const (
	EnvIdentityFolder   = "SPIFFE_CREDENTIAL_FOLDER" // the directory of its files; the name is that of the draft
	EnvIdentityCertFile = "TLS_IDENTITY_CERT_FILE"
	EnvIdentityKeyFile  = "TLS_IDENTITY_KEY_FILE"
	EnvIdentityCAFile   = "TLS_IDENTITY_CA_FILE" // the roots that verify identities
)
