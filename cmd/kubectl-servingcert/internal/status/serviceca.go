package status

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Keys that Secret signing-key of OpenShift's service-ca has besides tls.crt and tls.key once
// its CA was rotated. Source: pkg/controller/api/api.go of
// github.com/openshift/service-ca-operator.
const (
	serviceCABundle = "ca-bundle.crt"       // the root, and the previous CA's key certified by it
	serviceCACross  = "intermediate-ca.crt" // the root's key certified by the previous CA
)

// SigningKey is the CA of OpenShift's service-ca.
type SigningKey struct {
	Root *x509.Certificate
	// Cross is the root's key certified by the previous CA, and Former the previous CA's key
	// certified by the root; none if the CA was never rotated.
	Cross  *x509.Certificate
	Former []*x509.Certificate

	key []byte // PEM
}

// ParseSigningKey reads the data of Secret signing-key. It also accepts an expired CA: see
// Ended. Errors name the key of the Secret, but contain no part of the private key.
func ParseSigningKey(data map[string][]byte) (SigningKey, error) {
	certs, err := pki.ParseCertificates(data[corev1.TLSCertKey])
	if err != nil || len(certs) != 1 {
		return SigningKey{}, fmt.Errorf("%s: must hold one certificate in PEM: the CA", corev1.TLSCertKey)
	}
	s := SigningKey{Root: certs[0], key: data[corev1.TLSPrivateKeyKey]}
	key, err := pki.ParseForeignKey(s.key)
	if err != nil {
		return SigningKey{}, fmt.Errorf("%s: must hold the CA's private key in PEM, not encrypted", corev1.TLSPrivateKeyKey)
	}
	if err := pki.CheckCA(s.Root, key, s.Root.NotAfter); err != nil {
		return SigningKey{}, err
	}
	if s.Root.CheckSignature(s.Root.SignatureAlgorithm, s.Root.RawTBSCertificate, s.Root.Signature) != nil {
		return SigningKey{}, fmt.Errorf("%s: the certificate is not self-signed: must be a root", corev1.TLSCertKey)
	}
	if pem := data[serviceCACross]; len(pem) > 0 {
		certs, err := pki.ParseCertificates(pem)
		if err != nil || len(certs) != 1 || !bytes.Equal(certs[0].RawSubjectPublicKeyInfo, s.Root.RawSubjectPublicKeyInfo) {
			return SigningKey{}, fmt.Errorf("%s: must hold one certificate in PEM, of the CA's key", serviceCACross)
		}
		s.Cross = certs[0]
	}
	if pem := data[serviceCABundle]; len(pem) > 0 {
		bundle, err := pki.ParseBundle(pem)
		if err != nil {
			return SigningKey{}, fmt.Errorf("%s: %w", serviceCABundle, err)
		}
		for _, c := range bundle.Certificates() {
			if !c.Equal(s.Root) {
				s.Former = append(s.Former, c)
			}
		}
	}
	return s, nil
}

// endsSoon is the remaining lifetime that an import requires: an hour and the longest
// likely soak.
const endsSoon = 2 * time.Hour

// Ended reports whether the CA has expired, or expires too soon to be succeeded.
func (k SigningKey) Ended(now time.Time) bool { return now.Add(endsSoon).After(k.Root.NotAfter) }

// Import returns the data of Secret api.CAImportName with which the signer imports the CA.
func (k SigningKey) Import() map[string][]byte {
	root := pki.EncodeCertificates(k.Root)
	data := map[string][]byte{corev1.TLSCertKey: root, corev1.TLSPrivateKeyKey: k.key, api.BundleKey: root}
	if k.Cross != nil {
		data[api.CAImportCross] = pki.EncodeCertificates(k.Cross)
	}
	return data
}

// issuedBy reports whether the key of the CA signed the certificate, valid or not.
func issuedBy(cert, ca *x509.Certificate) bool {
	return bytes.Equal(cert.RawIssuer, ca.RawSubject) && ca.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature) == nil
}

// SecretState is the relation of a Service's Secret to service-ca and servingcert.
type SecretState string

// The states.
const (
	SecretMissing SecretState = "Missing"
	SecretOurs    SecretState = "Ours"    // servingcert manages it
	SecretCurrent SecretState = "Current" // service-ca's CA signed its certificate
	SecretFormer  SecretState = "Former"  // service-ca's previous CA signed it
	SecretChanged SecretState = "Changed" // service-ca created it, but its certificate was changed
	SecretForeign SecretState = "Foreign" // service-ca did not create it
)

// ServiceCASecret is a Secret that a Service requests with OpenShift's annotations.
type ServiceCASecret struct {
	Namespace, Name string
	Service         string
	State           SecretState
	// Why is why it is not taken over; "" if it is.
	Why             string
	ResourceVersion string
}

// SecretOfServiceCA returns the state of a Service's Secret, nil if it does not exist: by the
// annotations and owner reference that service-ca sets, and by the signature of its certificate.
func SecretOfServiceCA(svc *corev1.Service, name string, secret *corev1.Secret, key SigningKey, instance string) ServiceCASecret {
	s := ServiceCASecret{Namespace: svc.Namespace, Name: name, Service: svc.Name}
	if secret == nil {
		s.State = SecretMissing
		return s
	}
	s.ResourceVersion = secret.ResourceVersion
	certs, err := pki.ParseCertificates(secret.Data[corev1.TLSCertKey])
	marked := secret.Annotations[api.OpenShiftServiceUID] == string(svc.UID) || secret.Annotations[api.OpenShiftServiceUIDAlpha] == string(svc.UID)
	switch {
	case secret.Labels[api.LabelManagedBy] == instance:
		s.State = SecretOurs
	case !marked || !ownedBy(secret, svc) || secret.Type != corev1.SecretTypeTLS:
		s.State, s.Why = SecretForeign, "service-ca did not create it for this Service: it is left unchanged"
	case err != nil:
		s.State, s.Why = SecretChanged, "it was changed and holds no readable certificate: it is left unchanged. To have it created again, delete it"
	case key.Root != nil && issuedBy(certs[0], key.Root):
		s.State = SecretCurrent
	case key.signedBefore(certs[0]):
		s.State = SecretFormer
	default:
		s.State, s.Why = SecretChanged, fmt.Sprintf("its certificate was issued by %q: it is left unchanged. To have it created again, delete it", api.Escape(certs[0].Issuer.String()))
	}
	return s
}

func (k SigningKey) signedBefore(cert *x509.Certificate) bool {
	for _, ca := range k.Former {
		if issuedBy(cert, ca) {
			return true
		}
	}
	return false
}

func ownedBy(secret *corev1.Secret, svc *corev1.Service) bool {
	for _, r := range secret.OwnerReferences {
		if r.APIVersion == "v1" && r.Kind == "Service" && r.UID == svc.UID {
			return true
		}
	}
	return false
}

// ServiceCASecretName returns the Secret that the Service requests with OpenShift's
// annotations; "" without one.
func ServiceCASecretName(svc *corev1.Service) string {
	translated := api.Translate(svc)
	if api.OpenShiftAnnotation(translated) == "" {
		return ""
	}
	name, _ := api.Wants(translated)
	return name
}
