package doctor

// The checks. The id of a removed check is not reused.
const (
	NotLooked  ID = "SC001" // an object could not be read
	NotOptedIn ID = "SC002" // no namespace to test the webhook in

	ServerVersion       ID = "SC101"
	InstallRights       ID = "SC102"
	PoliciesServed      ID = "SC103"
	ServiceCARuns       ID = "SC104"
	Quota               ID = "SC105"
	LimitRanges         ID = "SC106"
	PodCertificates     ID = "SC107"
	ClusterTrustBundles ID = "SC108"

	Installed      ID = "SC201"
	Available      ID = "SC202"
	Leases         ID = "SC203"
	Versions       ID = "SC204"
	WebhookReached ID = "SC209"
	CABundle       ID = "SC210"
	Clock          ID = "SC211"
	KubeletServing ID = "SC212"

	CAProblem    ID = "SC301"
	CAWarning    ID = "SC302"
	TrustTargets ID = "SC305"
	SignerClock  ID = "SC306"
	WebhookRole  ID = "SC307"

	Value          ID = "SC401"
	UnknownKey     ID = "SC402"
	AsksNothing    ID = "SC403"
	InjectLabel    ID = "SC404"
	NotLabelled    ID = "SC405"
	SelectsNothing ID = "SC406"
	NotReady       ID = "SC407"
	NoConsumers    ID = "SC408"
	Stale          ID = "SC409"
	NotServed      ID = "SC410"
	TLSPorts       ID = "SC411"

	Unreadable   ID = "SC501"
	Refused      ID = "SC502"
	WrongPlace   ID = "SC503"
	Missed       ID = "SC504"
	NoRestart    ID = "SC505"
	SubPath      ID = "SC506"
	InjectedPart ID = "SC507"
	PodsRefused  ID = "SC508"
)

// checks lists all checks, sorted by id.
var checks = []Check{
	{NotLooked, "NotLooked", Doctor, Warning, "all objects could be read",
		"The user lacks a right to read, or the API server did not answer. The checks that need the objects were skipped. A missing right is a warning, any other failure an error.",
		"Run the command as a user who may read the named objects. If the API server did not answer, run it again.", "doctor.md#what-its-user-must-be-allowed-to-do", false},
	{NotOptedIn, "NotOptedIn", Doctor, Info, "the user may create pods in an opted-in namespace",
		"The API server calls the webhook only for pods of opted-in namespaces, and this user may create pods in none of the first 20. It is unknown whether the webhook is reached.",
		"Label a namespace servingcert.dev/inject=enabled, or let the command create one: --create-namespace.", "doctor.md#the-dry-run-pod", false},

	{ServerVersion, "ServerVersion", Before, Error, "Kubernetes is 1.30 or later",
		"servingcert needs ValidatingAdmissionPolicy v1 and match conditions of webhooks, which are stable since Kubernetes 1.30.",
		"Upgrade the cluster.", "operations.md#installing", false},
	{InstallRights, "InstallRights", Before, Error, "the user may create every object of an installation",
		"Applying the manifest fails halfway. Only a user who has every right in a role, or who may escalate, can create the role.",
		"Install as a user with cluster-admin, or with the rights that the message names.", "operations.md#installing", false},
	{PoliciesServed, "PoliciesServed", Before, Error, "the API server serves ValidatingAdmissionPolicy v1",
		"The policies limit what a stolen token of the signer or the rotator can write. Without this API, the manifest cannot be applied.",
		"Enable API group admissionregistration.k8s.io/v1 in full, or upgrade to Kubernetes 1.30 or later.", "admission-policies.md", false},
	{ServiceCARuns, "ServiceCARuns", Before, Warning, "OpenShift's service-ca is not running",
		"service-ca acts on the annotations service.beta.openshift.io/…. With --openshift-compat, both would write the same Secrets and ConfigMaps.",
		"Leave --openshift-compat off while service-ca runs, and use the annotations servingcert.dev/….", "openshift.md", false},
	{Quota, "Quota", Before, Warning, "every ResourceQuota allows the pods of servingcert",
		"A quota refuses pods that exceed it, and pods that do not set a resource that it limits. Some platforms put a quota on the priority class system-cluster-critical.",
		"Raise the quota in the namespace, or scope it so that it does not count these pods.", "doctor.md#before-you-install", false},
	{LimitRanges, "LimitRanges", Before, Error, "every LimitRange allows the pods of servingcert",
		"A LimitRange refuses pods with limits above its maximum or requests below its minimum.",
		"Remove the LimitRange from the namespace, or change its limits.", "doctor.md#before-you-install", false},
	{PodCertificates, "PodCertificates", Before, Info, "the API server serves PodCertificateRequests",
		"Without them, Services with servingcert.dev/key-source: pod get no certificates. Everything else works.",
		"For keys that never leave the pod, enable PodCertificateRequests in Kubernetes 1.36 or later. From 1.37 on, they are enabled by default.", "pod-keys.md#what-it-needs", false},
	{ClusterTrustBundles, "ClusterTrustBundles", Before, Info, "the API server serves ClusterTrustBundles",
		"Without them, pods take the CA bundle from ConfigMap servingcert-ca.crt. Everything else works.",
		"To also publish the bundle as a ClusterTrustBundle, enable the API in Kubernetes 1.33 or later. From 1.37 on, it is enabled by default.", "trust.md", false},

	{Installed, "Installed", System, Error, "signer, trust, rotator and webhook are installed",
		"Without the signer no certificate is issued, without trust no client gets the CA bundle, without the rotator nothing sees what pods serve, and without the webhook no pod of an opted-in namespace can be created.",
		"Apply the release's manifest again.", "operations.md#installing", false},
	{Available, "Available", System, Error, "every Deployment has all its replicas",
		"Its pods are not created, not scheduled, cannot pull their image, or are not ready.",
		"Find the cause: kubectl describe deployment,pods -n servingcert-system.", "operations.md#installing", false},
	{Leases, "Leases", System, Error, "the signer and the rotator hold and renew their Leases",
		"A replica works only while it holds the Lease. If none does, no certificate is issued, no CA bundle is written, and no pod is probed.",
		"See the logs of the replicas: kubectl logs -n servingcert-system deployment/servingcert-signer (or -rotator).", "operations.md#metrics", false},
	{Versions, "Versions", System, Warning, "all pods run the same version",
		"An upgrade is not finished, or only some components were upgraded. Only two consecutive versions are supported together, and only during an upgrade.",
		"Finish the rollout: kubectl rollout status deployment -n servingcert-system.", "operations.md#installing", false},
	{WebhookReached, "WebhookReached", System, Error, "the webhook injects a new pod (dry run)",
		"No pod of an opted-in namespace can be created, or pods are created without their certificates.",
		"Check that the webhook's pods are ready, that the API server can reach their port (firewalls of private clusters), and that the caBundle is right.", "operations.md#installing", false},
	{CABundle, "CABundle", System, Error, "the webhook's caBundle is the published bundle",
		"The API server does not trust the CA that signs for the webhook. Its calls to the webhook fail, or soon will.",
		"Read the log of the rotator, which writes the bundle into objects with servingcert.dev/inject-ca-bundle: \"true\".", "trust.md#what-refusing-looks-like", false},
	{Clock, "Clock", System, Warning, "the clocks of the API server and of this machine agree",
		"Either the times that this command shows or the cluster's clock are wrong. Certificates are valid from 5 minutes before they were issued.",
		"Synchronise the clocks (NTP).", "limits.md#lifetime-of-a-certificate", false},
	{KubeletServing, "KubeletServing", System, Warning, "every kubelet got the serving certificate that it requested (with --approve-kubelet-serving) and serves it (with --kubelets)",
		"The kubelet serves an older certificate or none, so logs, exec and metrics of its pods fail for clients that verify it. Kubernetes keeps a request for an hour.",
		"Do what the message says: compare --node-cidrs and --node-dns-suffixes with the addresses of the Node.", "kubelet-serving.md#what-is-approved", false},

	{CAProblem, "CAProblem", Authority, Error, "the CA can sign, and so can that for identities if there is one",
		"No certificate is issued or renewed until the problem is fixed. Existing certificates work until they expire.",
		"Look up the reason in the documentation. For CALost and CACorrupt, restore the Secret that the message names from a backup.", "operations.md#the-ca-is-lost-or-corrupt", false},
	{CAWarning, "CAWarning", Authority, Warning, "the signer reports no warning about its CAs, and no new generation has waited for longer than an hour",
		"The CA signs, but someone must act on the warning.",
		"Do what the warning says.", "operations.md#what-status-shows", false},
	{TrustTargets, "TrustTargets", Authority, Warning, "every target holds the current bundle, and ClusterTrustBundle servingcert.dev:client:ca that of identities",
		"Clients that read these targets may reject certificates of a new CA generation, and servers may refuse identities. A new generation waits for them before it signs.",
		"The message names the cause; kubectl servingcert status lists all targets.", "trust.md#what-refusing-looks-like", false},
	{SignerClock, "SignerClock", Authority, Error, "the signer's clock agrees with the API server's",
		"A signer whose clock is more than 2 minutes off signs nothing.",
		"Synchronise the clock of the signer's node (NTP).", "architecture.md#what-a-person-sees", false},

	{WebhookRole, "WebhookRole", Authority, Error, "a role lets the rotator write the caBundle of every annotated webhook configuration",
		"The configuration has no CA bundle, or an old one, so the API server cannot call the webhook. A new CA generation waits for it.",
		"Apply the ClusterRole that the finding prints, name the configuration in the chart's value trust.mutatingWebhookConfigurations or trust.validatingWebhookConfigurations, or set trust.webhooks=all.",
		"trust.md#webhook-configurations-are-named", false},

	{Value, "Value", Services, Error, "every annotation servingcert.dev/… of a Service or Namespace has a valid value",
		"No certificate is issued for the Service, or the setting is ignored.",
		"Correct the value.", "reference.md", true},
	{UnknownKey, "UnknownKey", Services, Error, "every annotation servingcert.dev/… has an effect on its object",
		"The annotation is ignored. Usually its key is misspelled or belongs on another object.",
		"Correct the key, or remove it.", "reference.md", true},
	{AsksNothing, "AsksNothing", Services, Warning, "every Service with annotations servingcert.dev/… requests a certificate",
		"Without servingcert.dev/secret-name or servingcert.dev/key-source: pod the other annotations have no effect.",
		"Set servingcert.dev/secret-name to the name of the Secret to write, or remove the other annotations.", "reference.md#on-a-service", true},
	{InjectLabel, "InjectLabel", Services, Error, "every label servingcert.dev/inject is enabled or disabled",
		"Only \"enabled\" opts a namespace in, and only \"disabled\" opts a pod out. With any other value, a namespace is not opted in and a pod is refused.",
		"Set the label to enabled or disabled.", "reference.md#on-a-namespace", true},
	{NotLabelled, "NotLabelled", Services, Warning, "every Service that requests a certificate is in an opted-in namespace",
		"Nothing is issued for a Service, and nothing injected into its pods, unless its namespace is opted in.",
		"Opt the namespace in: kubectl label namespace NAMESPACE servingcert.dev/inject=enabled.", "reference.md#on-a-namespace", true},
	{SelectsNothing, "SelectsNothing", Services, Warning, "every Service that requests a certificate selects pods",
		"No pod gets the certificate unless it mounts the Secret itself. The pods may also be in manifests that were not analyzed.",
		"Compare the Service's selector with the labels of the pod template.", "injection.md#which-secret", true},
	{NotReady, "NotReady", Services, Error, "condition servingcert.dev/Ready is True",
		"The Service has no certificate, or an old one that is not renewed.",
		"Do what the message says.", "architecture.md#what-a-person-sees", false},
	{NoConsumers, "NoConsumers", Services, Warning, "a ready pod mounts the certificate",
		"The certificate is issued and renewed, but no pod serves it.",
		"Recreate pods that are older than the annotation, and check that they have the Service's targetPort.", "how-rotation-reaches-pods.md#is-it-served", false},
	{Stale, "Stale", Services, Warning, "no pod serves an older certificate",
		"The program does not reload its files. Its clients fail when the served certificate expires.",
		"Restart it, or set servingcert.dev/on-rotate: restart on the pod template.", "how-rotation-reaches-pods.md#what-each-application-needs", false},
	{NotServed, "NotServed", Services, Warning, "the rotator saw pods serve the certificate at each TLS port of the Service, and refuse clients that it does not list",
		"The pods answer without TLS, with another certificate, or not at all; or the rotator has not probed them yet. It is an error if a pod admits clients that servingcert.dev/clients does not list.",
		"Make the program use the files in /etc/servingcert, or name its flags. If a pod admits others, restart it.", "how-rotation-reaches-pods.md#is-it-served", false},
	{TLSPorts, "TLSPorts", Services, Warning, "every TLS port of a Service reaches pods that it selects, and every targetPort that resembles a proxy port is valid",
		"The port has no endpoint: clients get no connection there, while other ports of the Service may work.",
		"Correct the Service's targetPort, or declare a port of that name in a container.", "tls-beside-plaintext.md#3-add-the-port", true},

	{Unreadable, "Unreadable", Workloads, Error, "every object can be parsed",
		"analyze cannot tell what the webhook would inject, and the API server probably refuses the object.",
		"Correct the manifest.", "doctor.md#in-a-pipeline-analyze", true},
	{Refused, "Refused", Workloads, Error, "the webhook would refuse no pod",
		"The pod's own annotations are wrong. The webhook refuses such a pod; without it the pod would serve plaintext.",
		"Correct the value.", "reference.md#on-a-pod-or-a-pod-template", true},
	{WrongPlace, "WrongPlace", Workloads, Error, "annotations for pods are in the pod template",
		"On the workload itself, the annotation has no effect: pods get the annotations of the template.",
		"Move it to spec.template.metadata.annotations.", "reference.md#on-a-pod-or-a-pod-template", true},
	{Missed, "Missed", Workloads, Warning, "no pod runs without the certificate, or with another proxy, than it would get now",
		"The pod is older than its namespace's label, its Service's annotation or the webhook, and runs without the files. Or it is older than the ports of a Service in servingcert.dev/connect: its calls fail, or leave the pod in plaintext. Or it is older than the trust domain: it shows no identity, or admits all clients.",
		"Restart the workload, so that its pods are created again.", "injection.md", false},
	{NoRestart, "NoRestart", Workloads, Warning, "every workload with servingcert.dev/on-rotate: restart can be restarted",
		"The annotation has no effect: the pods keep serving the old certificate.",
		"Use a Deployment, StatefulSet or DaemonSet with a rolling update, or make the program reload its files.", "how-rotation-reaches-pods.md#what-each-application-needs", true},
	{SubPath, "SubPath", Workloads, Warning, "no certificate is mounted by subPath",
		"The kubelet never updates files that are mounted by subPath. The container keeps the certificate with which it started.",
		"Mount the whole volume at a directory, and point the program to the files in it.", "how-rotation-reaches-pods.md#step-by-step", true},
	{InjectedPart, "InjectedPart", Workloads, Warning, "the webhook reports nothing about the workload",
		"The pod is created, but gets less than was probably intended, or needs attention.",
		"Do what the message says.", "injection.md#every-reason", true},
	{PodsRefused, "PodsRefused", Workloads, Error, "the API server accepts the pods of every Deployment, StatefulSet and DaemonSet",
		"New pods are not created. A ResourceQuota or a LimitRange may not allow the proxy in addition to the pod's own containers. For StatefulSets and DaemonSets that lack pods, an event of the last hour reports this.",
		"Do what the message says.", "injection.md#what-a-quota-counts", false},
}
