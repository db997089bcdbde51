package api

import "k8s.io/apimachinery/pkg/types"

// The annotations of OpenShift's service-ca, which a process with --openshift-compat
// accepts besides servingcert's own. Each has a beta form and an older alpha form with
// the same meaning. Servingcert's annotation takes precedence over beta, and beta over
// alpha. Source: pkg/controller/api/api.go of github.com/openshift/service-ca-operator.

// The domains of the annotations.
const (
	OpenShiftBeta  = "service.beta.openshift.io"
	OpenShiftAlpha = "service.alpha.openshift.io"
)

// Annotations of a Service. The signer writes all but the Secret's name.
const (
	// OpenShiftSecretName means the same as AnnotationSecretName.
	OpenShiftSecretName      = OpenShiftBeta + "/serving-cert-secret-name"
	OpenShiftSecretNameAlpha = OpenShiftAlpha + "/serving-cert-secret-name"
	// OpenShiftSignedBy is the common name of the last CA that signed.
	OpenShiftSignedBy      = OpenShiftBeta + "/serving-cert-signed-by"
	OpenShiftSignedByAlpha = OpenShiftAlpha + "/serving-cert-signed-by"
	// OpenShiftError says why no certificate could be issued.
	OpenShiftError      = OpenShiftBeta + "/serving-cert-generation-error"
	OpenShiftErrorAlpha = OpenShiftAlpha + "/serving-cert-generation-error"
	// OpenShiftErrorNum is the number of consecutive failures, in decimal.
	OpenShiftErrorNum      = OpenShiftBeta + "/serving-cert-generation-error-num"
	OpenShiftErrorNumAlpha = OpenShiftAlpha + "/serving-cert-generation-error-num"
)

// Annotations of a Secret, written by the signer.
const (
	// OpenShiftServiceName and OpenShiftServiceUID identify the Service of the Secret.
	OpenShiftServiceName      = OpenShiftBeta + "/originating-service-name"
	OpenShiftServiceNameAlpha = OpenShiftAlpha + "/originating-service-name"
	OpenShiftServiceUID       = OpenShiftBeta + "/originating-service-uid"
	OpenShiftServiceUIDAlpha  = OpenShiftAlpha + "/originating-service-uid"
	// OpenShiftExpiry is when the leaf expires, RFC 3339.
	OpenShiftExpiry      = OpenShiftBeta + "/expiry"
	OpenShiftExpiryAlpha = OpenShiftAlpha + "/expiry"
)

// The annotation with which a ConfigMap, APIService, CustomResourceDefinition or
// webhook configuration requests the CA bundle: "true", in any letter case.
const (
	OpenShiftInjectCABundle      = OpenShiftBeta + "/inject-cabundle"
	OpenShiftInjectCABundleAlpha = OpenShiftAlpha + "/inject-cabundle"
	// OpenShiftInjectLegacy means the same, but only on a ConfigMap named OpenShiftLegacyName, which
	// clusters created before OpenShift 4.7 have in each namespace.
	OpenShiftInjectLegacy = OpenShiftAlpha + "/inject-vulnerable-legacy-cabundle"
	OpenShiftLegacyName   = "openshift-service-ca.crt"
)

// Names of objects.
const (
	// OpenShiftBundleKey is the key of the bundle in a ConfigMap that requests it with
	// OpenShift's annotation.
	OpenShiftBundleKey = "service-ca.crt"
	// OpenShiftNamespace and OpenShiftDeployment are where service-ca runs, and
	// OpenShiftOperatorNamespace and OpenShiftOperatorDeployment where its operator does.
	OpenShiftNamespace          = "openshift-service-ca"
	OpenShiftDeployment         = "service-ca"
	OpenShiftSigningKey         = "signing-key" // the Secret there with its CA
	OpenShiftOperatorNamespace  = "openshift-service-ca-operator"
	OpenShiftOperatorDeployment = "service-ca-operator"
)

// ServiceCADeployments returns the Deployments of service-ca: the controller, and the operator that
// would recreate it.
func ServiceCADeployments() []types.NamespacedName {
	return []types.NamespacedName{
		{Namespace: OpenShiftNamespace, Name: OpenShiftDeployment},
		{Namespace: OpenShiftOperatorNamespace, Name: OpenShiftOperatorDeployment},
	}
}
