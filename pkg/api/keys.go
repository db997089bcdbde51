// Package api is the contract between servingcert and its users, and between its
// processes: every label, annotation, condition and object name, their defaults, and
// what a Service or a pod with them asks for. It is pure: it reads objects and returns
// requests or errors, and never talks to a cluster.
//
// A [Request] is what one Service asks for ([Parse]). A [Wanted] is what all Services
// that name one Secret ask for together ([Merge]). A [PodRequest] is what a pod asks of
// the webhook ([ParsePod]). [Exempt], [DeclaresPort], [OneShot] and [Reach] answer what both the
// webhook and the rotator ask about a pod, and an [InjectionStatus] is what the first
// tells the second. [StripService] reduces a Service to what a process keeps in its cache.
package api

import "github.com/servingcert/servingcert/pkg/formats"

// Domain is the prefix of every key that servingcert reads or writes.
const Domain = "servingcert.dev"

// Documentation is the address below which the pages of docs/ are read.
const Documentation = "https://github.com/servingcert/servingcert/blob/main/docs/"

// Labels.
const (
	// LabelInject with InjectEnabled opts a namespace in. With InjectDisabled it opts a
	// single pod of such a namespace out.
	LabelInject    = Domain + "/inject"
	InjectEnabled  = "enabled"
	InjectDisabled = "disabled"

	// LabelManagedBy is on every Secret that a signer writes. Its value is the signer's
	// --instance.
	LabelManagedBy = Domain + "/managed-by"

	// LabelInjected is "true" on every pod that the webhook injected. It is for people
	// and selectors, and the rotator watches such pods alone until they are ready.
	LabelInjected = Domain + "/injected"
)

// Annotations of a Service. AnnotationSecretName, AnnotationCombinedPEM and AnnotationFormats are
// also annotations of a pod.
const (
	AnnotationSecretName    = Domain + "/secret-name"
	AnnotationDuration      = Domain + "/duration"
	AnnotationKeyAlgorithm  = Domain + "/key-algorithm"
	AnnotationExtraDNSNames = Domain + "/extra-dns-names"
	AnnotationClusterIPs    = Domain + "/cluster-ips"
	AnnotationRenewAfter    = Domain + "/renew-after"
	// AnnotationBackendTLSPolicy, "true", asks the rotator for a BackendTLSPolicy of the Gateway
	// API, so that gateways call the Service with TLS and verify it.
	AnnotationBackendTLSPolicy = Domain + "/backend-tls-policy"
	// AnnotationCombinedPEM, "true", asks for CombinedKey in the Secret, and on a pod for
	// that file beside the others.
	AnnotationCombinedPEM = Domain + "/" + formats.CombinedAnnotation
	// AnnotationFormats lists formats by their words, comma-separated: on a Service those that
	// are asked for in the Secret, on a pod those whose files it gets beside the others.
	AnnotationFormats = Domain + "/formats"
	// AnnotationKeystorePassword is the password of formats that have one; see
	// formats.DefaultPassword. The signer writes it on the Secret too.
	AnnotationKeystorePassword = Domain + "/keystore-password"
)

// Annotations of a pod (or of a pod template). Those of Settings may be on a Service or a
// namespace too.
const (
	AnnotationContainers  = Domain + "/containers"
	AnnotationMode        = Domain + "/mode"
	AnnotationCertFlag    = Domain + "/cert-flag"
	AnnotationKeyFlag     = Domain + "/key-flag"
	AnnotationMountPath   = Domain + "/mount-path"
	AnnotationHTTPSProbes = Domain + "/https-probes"
	// AnnotationProxyProtocol lists ports of the programs to which the pod's proxy sends a
	// header of the PROXY protocol, version 2.
	AnnotationProxyProtocol = Domain + "/proxy-protocol"
	// AnnotationProxyResources lists requests and limits of the pod's proxy, by their names in a
	// ResourceQuota.
	AnnotationProxyResources = Domain + "/proxy-resources"
	AnnotationOnRotate       = Domain + "/on-rotate"
	AnnotationTrust          = Domain + "/trust"

	// AnnotationStatus is written by the webhook: an InjectionStatus, which says what
	// was done where, or why nothing was. It is for people, and the rotator reads
	// two things in it: why the Secret that the pod would get was not injected, so that
	// it does not report the pod as missed by the webhook; and which attempts were
	// made and withheld, so that it can correct them.
	AnnotationStatus = Domain + "/status"

	// AnnotationLeaf is written by the rotator on pods that run: a Mounted, which says
	// what the pod's files should hold. The write itself is what matters: the kubelet
	// updates the files of a pod that was changed at once. The rotator decides from
	// the value that it need not write again.
	AnnotationLeaf = Domain + "/leaf"
)

// AnnotationFilePrefix begins annotations that the webhook writes on a pod: each is the
// content of a configuration file beside the certificate, by which the program of a
// container is told to serve TLS.
const AnnotationFilePrefix = "file." + Domain + "/"

// Annotations of other objects.
const (
	// AnnotationRenewedAfter is on a Secret whose certificate was issued by a remote
	// CA: the latest AnnotationRenewAfter, RFC 3339, whose time had come by then. A
	// remote CA may backdate certificates, so the certificate does not show it. All
	// that follows from it is that a renewal is not done twice.
	AnnotationRenewedAfter = Domain + "/renewed-after"

	// AnnotationKeystoreDigest is on a Secret with a keystore: formats.SaltedDigest of when the
	// signer wrote it. A keystore with another digest is made again. Whoever forges it has a
	// keystore of their own making in a Secret of their own, and nothing else.
	AnnotationKeystoreDigest = Domain + "/keystore-digest"

	// AnnotationInjectCABundle, "true" on a ConfigMap, APIService,
	// CustomResourceDefinition or webhook configuration, asks for the CA bundle.
	AnnotationInjectCABundle = Domain + "/inject-ca-bundle"

	// AnnotationRotate on ConfigMap CAStatusName asks for one succession of the CA for
	// each new value.
	AnnotationRotate = Domain + "/rotate"
	// AnnotationRotateMode, besides AnnotationRotate, is how: a RotateMode.
	AnnotationRotateMode = Domain + "/rotate-mode"
	// AnnotationPromoteDespite on ConfigMap CAStatusName is the number of a new
	// generation that may sign although some targets do not hold its root.
	AnnotationPromoteDespite = Domain + "/promote-despite-refusing"
)

// Condition types on Services.
const (
	ConditionReady   = Domain + "/Ready"
	ConditionServing = Domain + "/Serving"
	// ConditionPodsHealthy is False as long as pods fail that were injected, and else absent.
	ConditionPodsHealthy = Domain + "/PodsHealthy"

	// StateSuffix follows the type of a condition in that of the condition that holds the same
	// as data, for processes: see package state.
	StateSuffix = "State"
)

// Names of objects.
const (
	// DefaultNamespace is where servingcert itself runs.
	DefaultNamespace = "servingcert-system"
	// DefaultInstance is the default of --instance, and so of LabelManagedBy.
	DefaultInstance = "servingcert"
	// CASecretName is the Secret with the CA and its key, in the signer's namespace.
	CASecretName = "servingcert-ca"
	// CAInterimName is the Secret, in the signer's namespace, of the CA that signs for
	// that namespace alone while the CA is lost.
	CAInterimName = "servingcert-interim-ca"
	// CAImportName is a Secret in the signer's namespace with a CA to import: tls.crt
	// (the CA, then the intermediates up to its root), tls.key and ca.crt (the root).
	CAImportName = "servingcert-ca-import"
	// CAImportCross is a key of that Secret, which need not be there: the root's key and
	// subject signed by the CA before it, in PEM.
	CAImportCross = "cross.crt"
	// ExtraRootsName is a ConfigMap in the signer's namespace with roots, in PEM under any
	// key, that clients are to trust beside the CA's.
	ExtraRootsName = "servingcert-extra-roots"
	// CAStatusName is the ConfigMap in the signer's namespace with what is public of
	// the CA: the bundle (BundleKey) and the progress of a succession.
	CAStatusName = "servingcert-ca-status"
	// TrustStatusName is the ConfigMap in the rotator's namespace that says
	// which targets hold which bundle.
	TrustStatusName = "servingcert-trust-status"
	// ProgramsName is the ConfigMap in the webhook's namespace with an operator's own
	// table of programs, under ProgramsKey.
	ProgramsName = "servingcert-programs"
	ProgramsKey  = "programs.yaml"
	// BundleName is the ConfigMap in every opted-in namespace with the bundle under
	// BundleKey.
	BundleName = "servingcert-ca.crt"
	// BundleKey is the key, and the file name, of a CA bundle.
	BundleKey = "ca.crt"
	// CombinedKey is the key, and the file name, of the private key followed by the
	// certificate chain, in the Secret of a Service with AnnotationCombinedPEM. A kubelet
	// that makes a pod's key can write it without that (podCertificate's credential bundle).
	CombinedKey = formats.CombinedFile
	// ConventionalSecretName is the Secret that a pod gets if nothing names another;
	// see IsConventional.
	ConventionalSecretName = "serving-cert"
)

// Environment variables that the webhook sets.
const (
	EnvCertFile = "TLS_CERT_FILE"
	EnvKeyFile  = "TLS_PRIVATE_KEY_FILE"
	EnvCAFile   = "TLS_CA_FILE"
	// EnvKeystorePassword is beside the variables of formats, which pkg/formats lists.
	EnvKeystorePassword = "TLS_KEYSTORE_PASSWORD"
)

// Defaults of a pod's annotations.
const (
	DefaultCertFlag  = "--tls-cert-file"
	DefaultKeyFlag   = "--tls-private-key-file"
	DefaultMountPath = "/etc/servingcert"
)
