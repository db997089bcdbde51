// Package api is the contract between servingcert and its users, and between its
// processes: every label, annotation, condition and object name, their defaults, and
// what they request on a Service or a pod. It is pure: it reads objects and returns
// requests or errors, and never connects to a cluster.
//
// A [Request] is the request of one Service ([Parse]). A [Wanted] is the combined request
// of all Services that name one Secret ([Merge]). A [PodRequest] is the request of a pod
// to the webhook ([ParsePod]). [Exempt], [DeclaresPort], [OneShot] and [Reach] describe a pod for both
// the webhook and the rotator, and an [InjectionStatus] is what the webhook reports to
// the rotator. [StripService] reduces a Service to what a process keeps in its cache.
package api

import "github.com/servingcert/servingcert/pkg/formats"

// Domain is the prefix of every key that servingcert reads or writes.
const Domain = "servingcert.dev"

// Documentation is the base URL of the pages of docs/.
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
	// and selectors. The rotator watches only such pods until they are ready.
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
	// AnnotationBackendTLSPolicy, "true", requests a BackendTLSPolicy of the Gateway API, so that
	// gateways connect to the Service with TLS and verify it.
	AnnotationBackendTLSPolicy = Domain + "/backend-tls-policy"
	// AnnotationCombinedPEM, "true", requests CombinedKey: on a Service in the Secret, on a pod
	// as an additional file.
	AnnotationCombinedPEM = Domain + "/" + formats.CombinedAnnotation
	// AnnotationFormats lists formats by their words, comma-separated: on a Service the formats
	// in the Secret, on a pod the additional files of the pod.
	AnnotationFormats = Domain + "/formats"
	// AnnotationKeystorePassword is the password of formats that have one; see
	// formats.DefaultPassword. The signer writes it on the Secret too.
	AnnotationKeystorePassword = Domain + "/keystore-password"
)

// Annotations of a pod (or of a pod template). Those of Settings are also annotations of a
// Service and a namespace.
const (
	AnnotationContainers  = Domain + "/containers"
	AnnotationMode        = Domain + "/mode"
	AnnotationCertFlag    = Domain + "/cert-flag"
	AnnotationKeyFlag     = Domain + "/key-flag"
	AnnotationMountPath   = Domain + "/mount-path"
	AnnotationHTTPSProbes = Domain + "/https-probes"
	// AnnotationProxyProtocol lists ports of the program. The pod's proxy begins connections to
	// them with a header of the PROXY protocol, version 2.
	AnnotationProxyProtocol = Domain + "/proxy-protocol"
	// AnnotationProxyResources lists requests and limits of the pod's proxy, named as in a
	// ResourceQuota.
	AnnotationProxyResources = Domain + "/proxy-resources"
	AnnotationOnRotate       = Domain + "/on-rotate"
	AnnotationTrust          = Domain + "/trust"

	// AnnotationStatus is written by the webhook: an InjectionStatus, which describes what
	// was injected where, or why nothing was. It is for people. The rotator reads
	// from it why the Secret was not injected, so that it does not report the pod as missed;
	// what was injected into which containers, for which Service; which of their programs load a
	// new certificate only when restarted; protocols before TLS; and the notes, which events
	// repeat.
	AnnotationStatus = Domain + "/status"

	// AnnotationLeaf is written by the rotator on running pods: a Mounted, which is what
	// the pod's files should hold. The purpose is the write itself: the kubelet updates the
	// files of a changed pod at once. The value shows the rotator that it need not write
	// again.
	AnnotationLeaf = Domain + "/leaf"
)

// AnnotationFilePrefix begins annotations that the webhook writes on a pod: each is the
// content of a configuration file that makes the program of a container serve TLS.
const AnnotationFilePrefix = "file." + Domain + "/"

// Annotations of other objects.
const (
	// AnnotationRenewedAfter is on a Secret whose certificate was issued by a remote CA:
	// the latest AnnotationRenewAfter, RFC 3339, that had passed at that time. A remote CA
	// may backdate certificates, so the certificate does not show it. It only prevents
	// repeated renewals.
	AnnotationRenewedAfter = Domain + "/renewed-after"

	// AnnotationIssuedLeaf is on a Secret of the signer: the fingerprint (SHA-256 of the DER, in hex) of
	// the certificate that it wrote last. With another certificate, another issuer has written the
	// Secret since (AnnotationIssuer). Forging the annotation only has the forger's own Secret replaced.
	AnnotationIssuedLeaf = Domain + "/issued-leaf"

	// AnnotationCertificateName is on a Secret that cert-manager writes: the name of its Certificate.
	AnnotationCertificateName = "cert-manager.io/certificate-name"

	// AnnotationKeystoreDigest is on a Secret with a keystore: its formats.SaltedDigest when the
	// signer wrote it. A keystore with another digest is made again. Forging the annotation only
	// keeps a forged keystore in the forger's own Secret.
	AnnotationKeystoreDigest = Domain + "/keystore-digest"

	// AnnotationInjectCABundle, "true" on a ConfigMap, APIService,
	// CustomResourceDefinition or webhook configuration, requests the CA bundle.
	AnnotationInjectCABundle = Domain + "/inject-ca-bundle"

	// AnnotationRotate on ConfigMap CAStatusName requests one succession of the CA for
	// each new value.
	AnnotationRotate = Domain + "/rotate"
	// AnnotationRotateMode is the RotateMode of AnnotationRotate.
	AnnotationRotateMode = Domain + "/rotate-mode"
	// AnnotationPromoteDespite on ConfigMap CAStatusName is the number of a new
	// generation that may sign although some targets do not hold its root.
	AnnotationPromoteDespite = Domain + "/promote-despite-refusing"
)

// Condition types on Services.
const (
	ConditionReady   = Domain + "/Ready"
	ConditionServing = Domain + "/Serving"
	// ConditionGuarded is on Services with AnnotationClients: True while their pods are seen to refuse clients that no list
	// names.
	ConditionGuarded = Domain + "/Guarded"
	// ConditionPodsHealthy is False while injected pods fail, and absent otherwise.
	ConditionPodsHealthy = Domain + "/PodsHealthy"

	// StateSuffix is appended to the type of a condition for the condition that holds the same as
	// data for processes: see package state.
	StateSuffix = "State"
)

// Names of objects.
const (
	// DefaultNamespace is where servingcert itself runs.
	DefaultNamespace = "servingcert-system"
	// DefaultInstance is the default of --instance, and therefore of LabelManagedBy.
	DefaultInstance = "servingcert"
	// CASecretName is the Secret with the CA and its key, in the signer's namespace.
	CASecretName = "servingcert-ca"
	// CAInterimName is the Secret, in the signer's namespace, of the CA that signs only
	// for that namespace while the CA is lost.
	CAInterimName = "servingcert-interim-ca"
	// CAImportName is a Secret in the signer's namespace with a CA to import: tls.crt
	// (the CA, then the intermediates up to its root), tls.key and ca.crt (the root).
	CAImportName = "servingcert-ca-import"
	// CAImportCross is an optional key of that Secret: the root's key and subject signed
	// by the previous CA, in PEM.
	CAImportCross = "cross.crt"
	// ExtraRootsName is a ConfigMap in the signer's namespace with additional roots that
	// clients must trust, in PEM under any key.
	ExtraRootsName = "servingcert-extra-roots"
	// CAStatusName is the ConfigMap in the signer's namespace with the public part of the
	// CA: the bundle (BundleKey) and the progress of a succession.
	CAStatusName = "servingcert-ca-status"
	// TrustStatusName is the ConfigMap in the rotator's namespace that reports which
	// targets hold the bundle.
	TrustStatusName = "servingcert-trust-status"
	// ClientCASecretName is the Secret with the CA for clients and its key, in the signer's namespace.
	ClientCASecretName = "servingcert-client-ca"
	// ClientCAStatusName is CAStatusName of the CA for clients.
	ClientCAStatusName = "servingcert-client-ca-status"
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
	// that makes a pod's key can write it without a Secret (podCertificate's credential bundle).
	CombinedKey = formats.CombinedFile
	// ConventionalSecretName is the Secret that a pod gets if nothing else applies; see
	// IsConventional.
	ConventionalSecretName = "serving-cert"
)

// Environment variables that the webhook sets.
const (
	EnvCertFile = "TLS_CERT_FILE"
	EnvKeyFile  = "TLS_PRIVATE_KEY_FILE"
	EnvCAFile   = "TLS_CA_FILE"
	// EnvKeystorePassword is set in addition to the variables of formats (pkg/formats).
	EnvKeystorePassword = "TLS_KEYSTORE_PASSWORD"
)

// Defaults of a pod's annotations.
const (
	DefaultCertFlag  = "--tls-cert-file"
	DefaultKeyFlag   = "--tls-private-key-file"
	DefaultMountPath = "/etc/servingcert"
)
