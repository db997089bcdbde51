// Package api is the contract between servingcert and its users: every label,
// annotation, condition and object name, their defaults, and what a Service or
// a pod that carries them asks for. It is pure: it reads objects and returns
// requests or errors, and never talks to a cluster.
//
// A [Request] is what one Service asks for ([Parse]); a [Wanted] is what all
// Services that name one Secret ask for together ([Merge]); a [PodRequest] is
// what a pod asks of the webhook ([ParsePod]).
package api

// Domain prefixes every key that servingcert reads or writes.
const Domain = "servingcert.dev"

// Labels.
const (
	// LabelInject opts a namespace in when it is InjectEnabled, and a single
	// pod of such a namespace out when it is InjectDisabled.
	LabelInject    = Domain + "/inject"
	InjectEnabled  = "enabled"
	InjectDisabled = "disabled"

	// LabelManagedBy is on every Secret that a signer wrote; its value is the
	// signer's --instance.
	LabelManagedBy = Domain + "/managed-by"

	// LabelInjected is on every pod that the webhook changed. It is for people
	// and selectors: no decision is made from it.
	LabelInjected = Domain + "/injected"
)

// Annotations of a Service. AnnotationSecretName is a pod's too.
const (
	AnnotationSecretName    = Domain + "/secret-name"
	AnnotationDuration      = Domain + "/duration"
	AnnotationKeyAlgorithm  = Domain + "/key-algorithm"
	AnnotationExtraDNSNames = Domain + "/extra-dns-names"
	AnnotationClusterIPs    = Domain + "/cluster-ips"
	AnnotationRenewAfter    = Domain + "/renew-after"
)

// Annotations of a pod (or of a pod template).
const (
	AnnotationContainers  = Domain + "/containers"
	AnnotationMode        = Domain + "/mode"
	AnnotationCertFlag    = Domain + "/cert-flag"
	AnnotationKeyFlag     = Domain + "/key-flag"
	AnnotationMountPath   = Domain + "/mount-path"
	AnnotationHTTPSProbes = Domain + "/https-probes"
	AnnotationOnRotate    = Domain + "/on-rotate"
	AnnotationTrust       = Domain + "/trust"

	// AnnotationStatus is written by the webhook: an InjectionStatus, which says what
	// was done where, or why nothing was. It is for people, and one decision is made
	// from it: the rotator does not report a pod as missed by the webhook if the
	// status says why the Secret that the pod would get was not injected.
	AnnotationStatus = Domain + "/status"
)

// Annotations of other objects.
const (
	// AnnotationRenewedAfter is on a Secret whose certificate comes from a CA
	// elsewhere: the latest AnnotationRenewAfter, RFC 3339, whose time had come
	// when it was issued. Such a CA may date back as it likes, so that the
	// certificate does not tell. It can only keep work from being done twice.
	AnnotationRenewedAfter = Domain + "/renewed-after"

	// AnnotationInjectCABundle, "true" on a ConfigMap, APIService,
	// CustomResourceDefinition or webhook configuration, keeps the CA bundle
	// in it.
	AnnotationInjectCABundle = Domain + "/inject-ca-bundle"

	// AnnotationRotate on ConfigMap CAStatusName asks for one succession of
	// the CA for each new value.
	AnnotationRotate = Domain + "/rotate"
	// AnnotationRotateMode, beside AnnotationRotate, says how: a RotateMode.
	AnnotationRotateMode = Domain + "/rotate-mode"
	// AnnotationPromoteDespite, on ConfigMap CAStatusName, lets a new generation
	// sign although some targets refuse its root: the number of the generation.
	AnnotationPromoteDespite = Domain + "/promote-despite-refusing"
)

// Condition types on Services.
const (
	ConditionReady   = Domain + "/Ready"
	ConditionServing = Domain + "/Serving"
)

// Names of objects.
const (
	// DefaultNamespace is where servingcert itself runs.
	DefaultNamespace = "servingcert-system"
	// DefaultInstance is the value of LabelManagedBy unless --instance says
	// otherwise.
	DefaultInstance = "servingcert"
	// CASecretName holds the CA, its key included, in the signer's namespace.
	CASecretName = "servingcert-ca"
	// CAImportName is a Secret in the signer's namespace with a CA that a person
	// brings: tls.crt (the CA, then what is between it and its root), tls.key and
	// ca.crt (the root).
	CAImportName = "servingcert-ca-import"
	// CAStatusName is the ConfigMap in the signer's namespace that holds what
	// is public of the CA: the bundle (BundleKey) and how far a succession is.
	CAStatusName = "servingcert-ca-status"
	// TrustStatusName is the ConfigMap in the rotator's namespace that says
	// which targets hold which bundle.
	TrustStatusName = "servingcert-trust-status"
	// BundleName is the ConfigMap in every opted-in namespace that holds the
	// bundle under BundleKey.
	BundleName = "servingcert-ca.crt"
	// BundleKey is the key, and the file name, of a CA bundle.
	BundleKey = "ca.crt"
	// ConventionalSecretName is the Secret that a pod gets without asking.
	ConventionalSecretName = "serving-cert"
)

// Environment variables that the webhook sets.
const (
	EnvCertFile = "TLS_CERT_FILE"
	EnvKeyFile  = "TLS_PRIVATE_KEY_FILE"
	EnvCAFile   = "TLS_CA_FILE"
)

// Defaults of a pod's annotations.
const (
	DefaultCertFlag  = "--tls-cert-file"
	DefaultKeyFlag   = "--tls-private-key-file"
	DefaultMountPath = "/etc/servingcert"
)
