package api

// The words of OpenShift's service-ca, which servingcert honours beside its own
// where a process has --openshift-compat. Every word has a beta and an older
// alpha form that says the same. Ours wins over beta, and beta over alpha: the
// first that is there decides. Source: pkg/controller/api/api.go of
// github.com/openshift/service-ca-operator.

// The domains of the words.
const (
	OpenShiftBeta  = "service.beta.openshift.io"
	OpenShiftAlpha = "service.alpha.openshift.io"
)

// Annotations of a Service. The errors are written by the signer.
const (
	// OpenShiftSecretName is what AnnotationSecretName is.
	OpenShiftSecretName      = OpenShiftBeta + "/serving-cert-secret-name"
	OpenShiftSecretNameAlpha = OpenShiftAlpha + "/serving-cert-secret-name"
	// OpenShiftSignedBy holds the common name of the CA that signed last.
	OpenShiftSignedBy      = OpenShiftBeta + "/serving-cert-signed-by"
	OpenShiftSignedByAlpha = OpenShiftAlpha + "/serving-cert-signed-by"
	// OpenShiftError says why no certificate could be made.
	OpenShiftError      = OpenShiftBeta + "/serving-cert-generation-error"
	OpenShiftErrorAlpha = OpenShiftAlpha + "/serving-cert-generation-error"
	// OpenShiftErrorNum is how many times in a row it could not, a decimal number.
	OpenShiftErrorNum      = OpenShiftBeta + "/serving-cert-generation-error-num"
	OpenShiftErrorNumAlpha = OpenShiftAlpha + "/serving-cert-generation-error-num"
)

// Annotations of a Secret, written by the signer.
const (
	// OpenShiftServiceName and OpenShiftServiceUID say which Service it is for.
	OpenShiftServiceName      = OpenShiftBeta + "/originating-service-name"
	OpenShiftServiceNameAlpha = OpenShiftAlpha + "/originating-service-name"
	OpenShiftServiceUID       = OpenShiftBeta + "/originating-service-uid"
	OpenShiftServiceUIDAlpha  = OpenShiftAlpha + "/originating-service-uid"
	// OpenShiftExpiry is when the leaf expires, RFC 3339.
	OpenShiftExpiry      = OpenShiftBeta + "/expiry"
	OpenShiftExpiryAlpha = OpenShiftAlpha + "/expiry"
)

// The annotation of a ConfigMap, APIService, CustomResourceDefinition or webhook
// configuration that keeps the CA bundle in it, if it is "true" in any case.
const (
	OpenShiftInjectCABundle      = OpenShiftBeta + "/inject-cabundle"
	OpenShiftInjectCABundleAlpha = OpenShiftAlpha + "/inject-cabundle"
)

// Names of objects.
const (
	// OpenShiftBundleKey is the key that a ConfigMap holds the bundle under that
	// asks for it in OpenShift's words.
	OpenShiftBundleKey = "service-ca.crt"
	// OpenShiftNamespace and OpenShiftDeployment are where service-ca runs, and the
	// others its operator.
	OpenShiftNamespace          = "openshift-service-ca"
	OpenShiftDeployment         = "service-ca"
	OpenShiftOperatorNamespace  = "openshift-service-ca-operator"
	OpenShiftOperatorDeployment = "service-ca-operator"
)
