package doctor

// The checks. An id is never given to another check; one that is dropped leaves a gap.
const (
	NotLooked  ID = "SC001" // something could not be read
	NotOptedIn ID = "SC002" // no namespace to try the webhook in

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

// checks are all checks, by id.
var checks = []Check{
	{NotLooked, "NotLooked", Doctor, Warning, "everything could be read",
		"The user may not read something, or the API server did not answer. The checks that need it were not made.",
		"Run it as a user who may read what is named.", "doctor.md#what-its-user-must-be-allowed-to-do", false},
	{NotOptedIn, "NotOptedIn", Doctor, Info, "there is a namespace in which the webhook can be tried",
		"The webhook is asked about pods of opted-in namespaces only, and there is none in which this user may create pods. Whether it is reached is not known.",
		"Label a namespace servingcert.dev/inject=enabled, or let the command make one: --create-namespace.", "doctor.md#the-dry-run-pod", false},

	{ServerVersion, "ServerVersion", Before, Error, "Kubernetes is 1.30 or later",
		"Admission policies (ValidatingAdmissionPolicy v1) and match conditions of webhooks exist since Kubernetes 1.30.",
		"Upgrade the cluster.", "operations.md#installing", false},
	{InstallRights, "InstallRights", Before, Error, "the user may create what an installation consists of",
		"Applying the manifest stops in the middle. Roles can be created only by who has all that they grant, or may escalate.",
		"Install as a user with cluster-admin, or one who may create, get and patch what is named.", "operations.md#installing", false},
	{PoliciesServed, "PoliciesServed", Before, Error, "the API server serves ValidatingAdmissionPolicy v1",
		"The policies keep a stolen token of the signer or the rotator from writing anything else. Without them the manifest cannot be applied.",
		"Enable API group admissionregistration.k8s.io/v1 in full, or upgrade to Kubernetes 1.30 or later.", "admission-policies.md", false},
	{ServiceCARuns, "ServiceCARuns", Before, Warning, "OpenShift's service-ca does not run",
		"service-ca answers the annotations service.beta.openshift.io/…. With --openshift-compat, both would write the same Secrets and ConfigMaps.",
		"Leave --openshift-compat off as long as service-ca runs, and use the annotations servingcert.dev/….", "openshift.md", false},
	{Quota, "Quota", Before, Warning, "no ResourceQuota keeps the pods from being created",
		"With a quota for a resource, pods that do not set it are refused, and so are those beyond it. Some platforms put a quota on the priority class system-cluster-critical.",
		"Raise the quota in the namespace, or scope it so that it does not count these pods.", "doctor.md#before-you-install", false},
	{LimitRanges, "LimitRanges", Before, Error, "no LimitRange refuses the pods",
		"A LimitRange with a smaller maximum or a larger minimum than the pods ask for refuses them.",
		"Remove the LimitRange from the namespace, or change its limits.", "doctor.md#before-you-install", false},
	{PodCertificates, "PodCertificates", Before, Info, "the API server serves PodCertificateRequests",
		"Without them, Services with servingcert.dev/key-source: pod get no certificates. All else works.",
		"To have keys that never leave the pod, enable PodCertificateRequests, in Kubernetes 1.36 or later; in 1.37 or later they are on by default.", "pod-keys.md#what-it-needs", false},
	{ClusterTrustBundles, "ClusterTrustBundles", Before, Info, "the API server serves ClusterTrustBundles",
		"Without them, pods take the CA bundle from ConfigMap servingcert-ca.crt. All else works.",
		"To have the bundle as a ClusterTrustBundle too, enable the API, in Kubernetes 1.33 or later; in 1.37 or later it is on by default.", "trust.md", false},

	{Installed, "Installed", System, Error, "signer, rotator and webhook are installed",
		"Without the signer no certificate is issued, without the rotator no client learns to trust it, and without the webhook no pod of an opted-in namespace can be created.",
		"Apply the release's manifest again.", "operations.md#installing", false},
	{Available, "Available", System, Error, "every Deployment has the replicas that it asks for",
		"Its pods are not created, not scheduled, cannot pull their image, or are not ready.",
		"See why: kubectl describe deployment,pods -n servingcert-system.", "operations.md#installing", false},
	{Leases, "Leases", System, Error, "signer and rotator hold their Leases and renew them",
		"A replica works only while it holds the Lease. If nobody does, nothing is issued, or trusted, or watched.",
		"See the logs of the replicas: kubectl logs -n servingcert-system deployment/servingcert-signer (or -rotator).", "operations.md#metrics", false},
	{Versions, "Versions", System, Warning, "all pods run one version",
		"An upgrade is not finished, or a part was upgraded alone. Versions that do not know each other's contracts do not mix for long.",
		"Finish the rollout: kubectl rollout status deployment -n servingcert-system.", "operations.md#installing", false},
	{WebhookReached, "WebhookReached", System, Error, "a pod that is created (dry run) reaches the webhook",
		"No pod of an opted-in namespace can be created, or pods are created without their certificates.",
		"See whether the webhook's pods are ready, whether the API server may reach their port (firewalls of private clusters), and whether its caBundle is right.", "operations.md#installing", false},
	{CABundle, "CABundle", System, Error, "the webhook's caBundle is the published bundle",
		"The API server trusts another CA than the one that signs, so that calls to the webhook will fail, if they do not already.",
		"See the rotator's log. It writes the bundle into objects with servingcert.dev/inject-ca-bundle: \"true\".", "trust.md#what-refusing-looks-like", false},
	{Clock, "Clock", System, Warning, "the clocks of the API server and of this machine agree",
		"Times that this command shows are wrong, or the cluster's clock is. Certificates are valid from 5 minutes before they were issued.",
		"Synchronise the clocks (NTP).", "limits.md#lifetime-of-a-certificate", false},
	{KubeletServing, "KubeletServing", System, Warning, "kubelets have the serving certificates that they asked for, with --approve-kubelet-serving, and serve them, which is seen with --kubelets",
		"The kubelet serves an older certificate or none, so that logs, exec and metrics of its pods fail for clients that verify it. Requests are known for an hour.",
		"Do what the message says: compare --node-cidrs and --node-dns-suffixes with the addresses of the Node.", "kubelet-serving.md#what-is-approved", false},

	{CAProblem, "CAProblem", Authority, Error, "the CA signs",
		"No certificate is issued or renewed until it does. Those that there are work until they end.",
		"See the reason in the documentation. For CALost and CACorrupt, restore Secret servingcert-ca from a backup.", "operations.md#the-ca-is-lost-or-corrupt", false},
	{CAWarning, "CAWarning", Authority, Warning, "the signer reports no warning about the CA",
		"The CA signs, and something about it needs a person.",
		"Do what the warning says.", "operations.md#what-status-shows", false},
	{TrustTargets, "TrustTargets", Authority, Warning, "every target holds the bundle of now",
		"Clients that read these targets may refuse certificates of a new generation, and such a generation waits for them.",
		"See why in the message, and kubectl servingcert status for all of them.", "trust.md#what-refusing-looks-like", false},
	{SignerClock, "SignerClock", Authority, Error, "the signer's clock agrees with the API server's",
		"A signer whose clock is more than 2 minutes off signs nothing.",
		"Synchronise the clock of the signer's node (NTP).", "architecture.md#what-a-person-sees", false},

	{WebhookRole, "WebhookRole", Authority, Error, "a role lets the rotator write the caBundle of every annotated webhook configuration",
		"The configuration has no CA bundle, or keeps an old one, so that the API server cannot call the webhook. A new CA waits for it.",
		"Apply the ClusterRole that the finding prints, name the configuration in the chart's value trust.mutatingWebhookConfigurations or trust.validatingWebhookConfigurations, or set trust.webhooks=all.",
		"trust.md#webhook-configurations-are-named", false},

	{Value, "Value", Services, Error, "every annotation servingcert.dev/… of a Service or Namespace has a value that is allowed",
		"No certificate is issued for the Service, or the setting is ignored.",
		"Correct the value.", "reference.md", true},
	{UnknownKey, "UnknownKey", Services, Error, "every annotation servingcert.dev/… means something where it is",
		"The annotation is ignored. Most often its key is misspelled, or belongs on another object.",
		"Correct the key, or remove it.", "reference.md", true},
	{AsksNothing, "AsksNothing", Services, Warning, "a Service with annotations servingcert.dev/… asks for a certificate",
		"Without servingcert.dev/secret-name or servingcert.dev/key-source: pod the other annotations have no effect.",
		"Set servingcert.dev/secret-name to the name of the Secret to write, or remove the others.", "reference.md#on-a-service", true},
	{InjectLabel, "InjectLabel", Services, Error, "label servingcert.dev/inject is enabled or disabled",
		"Only \"enabled\" opts a namespace in, and only \"disabled\" opts a pod out. With any other value a namespace gets nothing, and a pod is refused.",
		"Set the label to enabled or disabled.", "reference.md#on-a-namespace", true},
	{NotLabelled, "NotLabelled", Services, Warning, "Services that ask for a certificate are in opted-in namespaces",
		"Nothing is issued for a Service, and nothing injected into its pods, unless its namespace is opted in.",
		"Opt the namespace in: kubectl label namespace NAMESPACE servingcert.dev/inject=enabled.", "reference.md#on-a-namespace", true},
	{SelectsNothing, "SelectsNothing", Services, Warning, "a Service that asks for a certificate selects pods",
		"No pod gets the certificate, unless it mounts the Secret itself. In manifests, the pods may be in others.",
		"Compare the Service's selector with the labels of the pod template.", "injection.md#which-secret", true},
	{NotReady, "NotReady", Services, Error, "condition servingcert.dev/Ready is True",
		"The Service has no certificate, or an old one that is not renewed.",
		"Do what the message says.", "architecture.md#what-a-person-sees", false},
	{NoConsumers, "NoConsumers", Services, Warning, "some ready pod mounts the certificate",
		"The certificate is issued and renewed, and nobody serves it.",
		"Recreate pods that are older than the annotation; see that the Service's targetPort is one of theirs.", "how-rotation-reaches-pods.md#is-it-served", false},
	{Stale, "Stale", Services, Warning, "no pod serves an older certificate",
		"The program does not reload its files. It breaks when the certificate that it serves ends.",
		"Restart it, or let it be restarted: servingcert.dev/on-rotate: restart on the pod template.", "how-rotation-reaches-pods.md#what-each-application-needs", false},
	{NotServed, "NotServed", Services, Warning, "pods were seen to serve the certificate over TLS, at each TLS port of the Service",
		"The pods answer without TLS, with a certificate from somewhere else, or not at all; or the rotator has not looked yet.",
		"Make the program use the files in /etc/servingcert, or name its flags.", "how-rotation-reaches-pods.md#is-it-served", false},
	{TLSPorts, "TLSPorts", Services, Warning, "every TLS port of a Service leads to pods that it selects, and every targetPort that looks as if it asked for a proxy does",
		"The port has no endpoint: clients get no connection there, while other ports of the Service may work.",
		"Correct the Service's targetPort, or declare a port of that name in a container.", "tls-beside-plaintext.md#3-add-the-port", true},

	{Unreadable, "Unreadable", Workloads, Error, "every object can be read",
		"What would be done to it is not known, and the API server is likely to refuse it.",
		"Correct the manifest.", "doctor.md#in-a-pipeline-analyze", true},
	{Refused, "Refused", Workloads, Error, "no pod would be refused by the webhook",
		"The pod's own annotations are wrong. The webhook refuses such a pod; without it the pod would serve plaintext.",
		"Correct the value.", "reference.md#on-a-pod-or-a-pod-template", true},
	{WrongPlace, "WrongPlace", Workloads, Error, "annotations for pods are in the pod template",
		"On the Deployment itself the annotation has no effect: pods get the annotations of the template.",
		"Move it to spec.template.metadata.annotations.", "reference.md#on-a-pod-or-a-pod-template", true},
	{Missed, "Missed", Workloads, Warning, "no pod runs without the certificate that it would get now",
		"The pod is older than its namespace's label, its Service's annotation or the webhook, and runs without the files.",
		"Restart the workload, so that its pods are created again.", "injection.md", false},
	{NoRestart, "NoRestart", Workloads, Warning, "what asks to be restarted can be",
		"servingcert.dev/on-rotate: restart has no effect: its pods keep serving the old certificate.",
		"Use a Deployment, StatefulSet or DaemonSet with a rolling update, or make the program reload its files.", "how-rotation-reaches-pods.md#what-each-application-needs", true},
	{SubPath, "SubPath", Workloads, Warning, "no certificate is mounted by subPath",
		"The kubelet never updates files that are mounted by subPath. The container keeps the certificate with which it started.",
		"Mount the whole volume at a directory, and point the program to the files in it.", "how-rotation-reaches-pods.md#step-by-step", true},
	{InjectedPart, "InjectedPart", Workloads, Warning, "the webhook has nothing to remark about the workload",
		"The pod is created, and gets less than was likely meant, or something that needs attention.",
		"Do what the message says.", "injection.md#every-reason", true},
	{PodsRefused, "PodsRefused", Workloads, Error, "the API server takes the pods of every Deployment",
		"New pods are not created. A ResourceQuota or a LimitRange may have no room for the proxy beside the pod's own containers. StatefulSets and DaemonSets report it in events only, which are not read.",
		"Do what the message says.", "injection.md#what-a-quota-counts", false},
}
