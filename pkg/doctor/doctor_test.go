package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// bundle returns a CA bundle with one CA, valid from begin to end.
func bundle(t *testing.T, begin, end time.Time) string {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	require.NoError(t, err)
	root, err := pki.NewRoot(key, 1, api.DefaultLimits().Constraints(), begin, end)
	require.NoError(t, err)
	return string(pki.EncodeCertificates(root))
}

// healthy returns the facts of a cluster without problems.
func healthy(t *testing.T) Facts {
	t.Helper()
	two, seconds, holder := int32(2), int32(15), "pod_1"
	renewed := metav1.NewMicroTime(noon.Add(-3 * time.Second))
	i := &Installation{
		Namespace: api.DefaultNamespace, Deployments: map[string]*appsv1.Deployment{}, Leases: map[string]*coordinationv1.Lease{},
		KubeletRequests: []certificatesv1.CertificateSigningRequest{},
	}
	for _, c := range components {
		name := "servingcert-" + c
		i.Deployments[name] = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{Replicas: &two}, Status: appsv1.DeploymentStatus{ReadyReplicas: 2}}
		i.Leases[name] = &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &renewed}}
		i.Pods = append(i.Pods, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-x"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: c, Image: "registry:5000/" + c + ":v1@sha256:00"}}},
		})
	}
	i.Bundle = bundle(t, noon.AddDate(0, -1, 0), noon.AddDate(1, 0, 0))
	i.CABundles = []string{i.Bundle}
	i.DryRun = &DryRun{Namespace: "shop", Created: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{api.LabelInjected: "true"}}}}

	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls"}}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
	svc.Status.Conditions = append(
		state.Say(metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued"}, state.Ready{Secret: "web-tls"}).Both(),
		state.Say(metav1.Condition{Type: api.ConditionServing, Status: metav1.ConditionTrue, Reason: api.ServingCurrent}, state.Serving{Ports: api.NeedsHash(svc)}).Both()...)
	web := Workload{Kind: "Deployment", Name: "web"}
	web.Template.Labels = map[string]string{"app": "web"}
	web.Template.Annotations = map[string]string{api.AnnotationOnRotate: "restart"}
	web.Template.Spec = corev1.PodSpec{
		Containers: []corev1.Container{{Name: "web", VolumeMounts: []corev1.VolumeMount{{Name: "tls", MountPath: "/tls"}}}},
		Volumes:    []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "web-tls"}}}},
	}
	return Facts{
		Platform: &Platform{
			Version: "v1.36.0", Major: 1, Minor: 36, Escalates: true, Policies: true, PodCertificates: true, ClusterTrustBundles: true,
			Pods: []corev1.PodSpec{{PriorityClassName: "system-cluster-critical", Containers: []corev1.Container{{Name: "signer", Resources: corev1.ResourceRequirements{
				Requests: list("cpu", "50m", "memory", "64Mi"), Limits: list("memory", "256Mi"),
			}}}}},
		},
		Installation: i,
		Authority: &State{
			CA:    api.CAStatus{Bundle: i.Bundle, BundleHash: "h", Generation: 1, NotAfter: noon.AddDate(1, 0, 0)},
			Trust: &api.TrustStatus{BundleHash: "h", Targets: 2, Holding: 2},
		},
		Identities: &State{
			CA: api.CAStatus{BundleHash: "c", Generation: 3, NotAfter: noon.AddDate(1, 0, 0)}, Clients: true,
			Trust: &api.TrustStatus{BundleHash: "c", Targets: 1, Holding: 1},
		},
		Namespaces: []Namespace{{Name: "shop", Seen: true, Live: true, Labels: map[string]string{api.LabelInject: api.InjectEnabled}, Services: []*corev1.Service{svc}, Workloads: []Workload{web}}},
	}
}

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func TestNothingIsFoundInAHealthyCluster(t *testing.T) {
	healthy := healthy(t)
	r := healthy.Examine(noon)
	for _, f := range r.Findings {
		assert.Equal(t, OK, f.Level, "%s %s: %s", f.ID, f.Object, f.Message)
	}
	assert.False(t, r.Failed(true))
	var ids []ID
	for _, f := range r.Findings {
		ids = append(ids, f.ID)
	}
	for _, c := range checks {
		if c.ID != Unreadable && c.ID != InjectedPart { // made from manifests only
			assert.Contains(t, ids, c.ID, "the check is made")
		}
	}
}

// A list with watch is meant to admit all.
func TestNothingIsFoundInGuardedServices(t *testing.T) {
	for reason, status := range map[string]metav1.ConditionStatus{api.GuardedRefusing: metav1.ConditionTrue, api.GuardedWatch: metav1.ConditionFalse} {
		f := healthy(t)
		guarded(&f, status, reason, "")
		assert.Empty(t, f.Examine(noon).AtLeast(Info), reason)
	}
}

// After the CA was lost and restored, the webhook may have a certificate of the interim CA.
func TestTheWebhookIsTrustedByTheInterimRoot(t *testing.T) {
	f := healthy(t)
	assert.Equal(t, f.Authority.CA.Bundle, f.Authority.WebhookBundle())
	f.Authority.CA.OwnBundle = f.Authority.CA.Bundle + bundle(t, noon.Add(-time.Hour), noon.AddDate(1, 0, 0))
	f.Installation.Bundle = f.Authority.WebhookBundle()
	assert.Equal(t, 1, f.Examine(noon).Errors, "the API server does not trust its root yet")
	f.Installation.CABundles = []string{f.Authority.CA.OwnBundle}
	assert.Zero(t, f.Examine(noon).Errors)
}

// breaking changes one thing in a healthy cluster, and lists the expected findings.
type breaking struct {
	name  string
	spoil func(t *testing.T, f *Facts)
	want  string // lines, each LEVEL ID OBJECT: MESSAGE
}

func (b breaking) run(t *testing.T) {
	t.Helper()
	f := healthy(t)
	b.spoil(t, &f)
	var got []string
	for _, found := range f.Examine(noon).AtLeast(Info) {
		got = append(got, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s: %s", found.Level, found.ID, found.Object, found.Message)), " "))
		assert.NotEmpty(t, found.Fix)
		assert.NotEmpty(t, found.Name)
	}
	assert.Equal(t, strings.Split(b.want, "\n"), got)
}

func service(f *Facts) *corev1.Service { return f.Namespaces[0].Services[0] }

func condition(f *Facts, i int, status metav1.ConditionStatus, reason, message string) {
	c := &service(f).Status.Conditions[2*i] // each is followed by its state
	c.Status, c.Reason, c.Message = status, reason, message
}

// guarded makes the Service list its clients, with the condition.
func guarded(f *Facts, status metav1.ConditionStatus, reason, message string) {
	svc := service(f)
	svc.Annotations[api.AnnotationClients] = "shop/cart"
	said := state.Say(metav1.Condition{Type: api.ConditionGuarded, Status: status, Reason: reason, Message: message}, state.Guarded{Of: api.GuardHash(svc)})
	svc.Status.Conditions = append(svc.Status.Conditions, said.Both()...)
}

// failing adds the condition about pods that fail after their injection.
func failing(f *Facts) {
	service(f).Status.Conditions = append(service(f).Status.Conditions,
		metav1.Condition{Type: api.ConditionPodsHealthy, Status: metav1.ConditionFalse, Reason: api.PodsFailing, Message: "container app exits: unknown flag"})
}

// The fix is not to recreate pods that would fail again.
func TestTheFixForFailingPods(t *testing.T) {
	f := healthy(t)
	condition(&f, 1, metav1.ConditionFalse, api.ServingNoConsumers, "none")
	failing(&f)
	list := f.Examine(noon).AtLeast(Info)
	require.Len(t, list, 1)
	assert.Equal(t, "Correct what the condition names: the pods fail after their injection, and new ones will too.", list[0].Fix)
}

// ports gives the Service a port that the rotator has probed.
func ports(f *Facts, p corev1.ServicePort) {
	svc := service(f)
	svc.Spec.Ports = []corev1.ServicePort{p}
	said := state.Say(svc.Status.Conditions[2], state.Serving{Ports: api.NeedsHash(svc)})
	svc.Status.Conditions = append(svc.Status.Conditions[:2], said.Both()...)
}

func deployment(f *Facts, component string) *appsv1.Deployment {
	return f.Installation.Deployments["servingcert-"+component]
}

func quotaOfPods(hard, used corev1.ResourceList, scopes ...corev1.ResourceQuotaScope) []corev1.ResourceQuota {
	return []corev1.ResourceQuota{{ObjectMeta: metav1.ObjectMeta{Namespace: "s", Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: hard, Scopes: scopes}, Status: corev1.ResourceQuotaStatus{Used: used}}}
}

func limits(item corev1.LimitRangeItem) []corev1.LimitRange {
	item.Type = corev1.LimitTypeContainer
	return []corev1.LimitRange{{ObjectMeta: metav1.ObjectMeta{Namespace: "s", Name: "l"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}}}
}

var ofThePlatform = []breaking{
	{"nothing could be read", func(_ *testing.T, f *Facts) {
		f.Failures = []Failure{{What: "Leases in servingcert-system", Why: "forbidden", Kind: ReadForbidden, Checks: []ID{Leases}}}
	}, "warning SC001 Leases in servingcert-system: could not be read: forbidden"},
	{"the API server did not answer", func(_ *testing.T, f *Facts) {
		f.Failures = []Failure{{What: "Deployments in servingcert-system", Why: "the server is currently unable to handle the request", Checks: []ID{Installed}}}
	}, "error SC001 Deployments in servingcert-system: could not be read: the server is currently unable to handle the request"},
	{"kubelets are not dialled", func(_ *testing.T, f *Facts) {
		f.Failures = []Failure{{What: "kubelets", Why: "none was dialled", Checks: []ID{KubeletServing}, Kind: ReadNotTried}}
	}, "warning SC001 kubelets: could not be read: none was dialled"},
	{"much may not be read", func(_ *testing.T, f *Facts) {
		for i := range 8 {
			f.Failures = append(f.Failures, Failure{What: fmt.Sprint("Role r", i), Why: "forbidden", Kind: ReadForbidden, Checks: nil})
		}
	}, "warning SC001 : this user may not read Role r0; Role r1; Role r2; Role r3; Role r4; and 3 more"},
	{"no namespace to try", func(_ *testing.T, f *Facts) {
		f.Installation.DryRun = nil
	}, "info SC002 : this user may create pods in no opted-in namespace (at most 20 were tried): the webhook was not tested"},
	{"an old server", func(_ *testing.T, f *Facts) { f.Platform.Version, f.Platform.Minor = "v1.29.4", 29 }, "error SC101 : the API server is v1.29.4"},
	{"a missing right", func(_ *testing.T, f *Facts) { f.Platform.Denied = []string{"create namespaces"} }, "error SC102 : you may not create namespaces"},
	{"no escalation", func(_ *testing.T, f *Facts) { f.Platform.Escalates = false }, "warning SC102 : you may not escalate or bind roles: those of servingcert can be created only if you have every right that they grant"},
	{"no policies", func(_ *testing.T, f *Facts) { f.Platform.Policies = false }, "error SC103 : the API server does not serve validatingadmissionpolicies of admissionregistration.k8s.io/v1"},
	{"service-ca", func(_ *testing.T, f *Facts) { f.Platform.ServiceCA = "Deployment openshift-service-ca/service-ca" }, "warning SC104 Deployment openshift-service-ca/service-ca: it is running"},
	{"a full quota", func(_ *testing.T, f *Facts) { f.Platform.Quotas = quotaOfPods(list("pods", "3"), list("pods", "3")) }, "error SC105 ResourceQuota s/q: pods: 0 left, but the pods need 1"},
	{"a quota on what is not set", func(_ *testing.T, f *Facts) { f.Platform.Quotas = quotaOfPods(list("limits.cpu", "3"), nil) }, "error SC105 ResourceQuota s/q: it limits limits.cpu, which container signer does not set: its pods are refused"},
	{"a quota of memory", func(_ *testing.T, f *Facts) {
		f.Platform.Quotas = quotaOfPods(list("requests.memory", "100Mi"), list("requests.memory", "50Mi"))
	}, "error SC105 ResourceQuota s/q: requests.memory: 50Mi left, but the pods need 64Mi"},
	{"a small maximum", func(_ *testing.T, f *Facts) {
		f.Platform.LimitRanges = limits(corev1.LimitRangeItem{Max: list("memory", "128Mi")})
	}, "error SC106 LimitRange s/l: its maximum of memory is 128Mi, but container signer has limit 256Mi"},
	{"a large minimum", func(_ *testing.T, f *Facts) {
		f.Platform.LimitRanges = limits(corev1.LimitRangeItem{Min: list("cpu", "100m")})
	}, "error SC106 LimitRange s/l: its minimum of cpu is 100m, but container signer requests 50m"},
	{"no PodCertificateRequests", func(_ *testing.T, f *Facts) { f.Platform.PodCertificates = false }, "info SC107 : the API server does not serve podcertificaterequests of certificates.k8s.io"},
	{"no ClusterTrustBundles", func(_ *testing.T, f *Facts) { f.Platform.ClusterTrustBundles = false }, "info SC108 : the API server does not serve clustertrustbundles of certificates.k8s.io"},
	{"too old for PodCertificateRequests", func(_ *testing.T, f *Facts) {
		f.Platform.PodCertificates, f.Platform.Version, f.Platform.Minor = false, "v1.35.4", 35
	}, "info SC107 : the API server is v1.35.4, but podcertificaterequests of certificates.k8s.io need Kubernetes 1.36 or later"},
	{"too old for ClusterTrustBundles", func(_ *testing.T, f *Facts) {
		f.Platform.ClusterTrustBundles, f.Platform.Version, f.Platform.Minor = false, "v1.32.2", 32
	}, "info SC108 : the API server is v1.32.2, but clustertrustbundles of certificates.k8s.io need Kubernetes 1.33 or later"},
	{"new enough for ClusterTrustBundles", func(_ *testing.T, f *Facts) {
		f.Platform.ClusterTrustBundles, f.Platform.Version, f.Platform.Minor = false, "v1.33.6", 33
	}, "info SC108 : the API server does not serve clustertrustbundles of certificates.k8s.io"},
}

var ofTheInstallation = []breaking{
	{"not installed", func(_ *testing.T, f *Facts) { delete(f.Installation.Deployments, "servingcert-signer") }, "error SC201 Deployment servingcert-system/servingcert-signer: it does not exist"},
	{"no replica ready", func(_ *testing.T, f *Facts) {
		deployment(f, "webhook").Status.ReadyReplicas = 0
		f.Installation.Pods[3].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "webhook", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"}}}}
	}, "error SC202 Deployment servingcert-system/servingcert-webhook: ready replicas: 0 of 2: container webhook: ImagePullBackOff: not found"},
	{"one replica not ready", func(_ *testing.T, f *Facts) {
		deployment(f, "webhook").Status.ReadyReplicas = 1
		f.Installation.Pods[3].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes"}}
	}, "warning SC202 Deployment servingcert-system/servingcert-webhook: ready replicas: 1 of 2: pod servingcert-webhook-x: Unschedulable: 0/1 nodes"},
	{"quota", func(_ *testing.T, f *Facts) {
		deployment(f, "webhook").Status = appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota"}}}
	}, "error SC202 Deployment servingcert-system/servingcert-webhook: ready replicas: 0 of 2: exceeded quota"},
	{"a rollout that is stuck", func(_ *testing.T, f *Facts) {
		deployment(f, "signer").Status = appsv1.DeploymentStatus{ReadyReplicas: 2, UnavailableReplicas: 1, Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: "ReplicaSet x has timed out progressing."},
		}}
		f.Installation.Pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "signer", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no"}}}}
	}, "error SC202 Deployment servingcert-system/servingcert-signer: its rollout is stuck, ready replicas: 2 of 2: ProgressDeadlineExceeded: ReplicaSet x has timed out progressing.: container signer: ErrImagePull: no"},
	{"a rollout that is not complete", func(_ *testing.T, f *Facts) {
		deployment(f, "signer").Status.UnavailableReplicas = 1
	}, "warning SC202 Deployment servingcert-system/servingcert-signer: unavailable replicas: 1, ready replicas: 2"},
	{"scaled to 0", func(_ *testing.T, f *Facts) { deployment(f, "signer").Spec.Replicas = new(int32) }, "error SC202 Deployment servingcert-system/servingcert-signer: it is scaled to 0 replicas"},
	{"uninstalled a moment ago", func(_ *testing.T, f *Facts) {
		deployment(f, "signer").DeletionTimestamp = &metav1.Time{Time: noon} // foreground: its pods are still there
	}, "error SC202 Deployment servingcert-system/servingcert-signer: it is being deleted"},
	{"no lease", func(_ *testing.T, f *Facts) { delete(f.Installation.Leases, "servingcert-rotator") }, "error SC203 Lease servingcert-system/servingcert-rotator: it does not exist: no rotator has run yet, or it may not create it"},
	{"a lease without a holder", func(_ *testing.T, f *Facts) {
		f.Installation.Leases["servingcert-rotator"].Spec.HolderIdentity = new(string)
	}, "error SC203 Lease servingcert-system/servingcert-rotator: no replica holds it"},
	{"an old lease", func(_ *testing.T, f *Facts) {
		old := metav1.NewMicroTime(noon.Add(-16 * time.Second))
		f.Installation.Leases["servingcert-rotator"].Spec.RenewTime = &old
	}, "error SC203 Lease servingcert-system/servingcert-rotator: pod_1 has not renewed it for 16s"},
	{"a lease whose holder died, with a clock ahead", func(_ *testing.T, f *Facts) {
		old, now := metav1.NewTime(noon.Add(-20*time.Second)), metav1.NewTime(noon) // a label was added
		f.Installation.Leases["servingcert-rotator"].ManagedFields = []metav1.ManagedFieldsEntry{{Time: &old, FieldsV1: renewing}, {}, {Time: &now}}
	}, "error SC203 Lease servingcert-system/servingcert-rotator: pod_1 has not renewed it for 20s"},
	{"two versions", func(_ *testing.T, f *Facts) { f.Installation.Pods[0].Spec.Containers[0].Image = "signer:v2" }, "warning SC204 Namespace servingcert-system: v1: servingcert-rotator-x, servingcert-trust-x, servingcert-webhook-x; v2: servingcert-signer-x"},
	{"the webhook does not answer", func(_ *testing.T, f *Facts) {
		f.Installation.DryRun = &DryRun{Namespace: "shop", Refusal: `Internal error occurred: failed calling webhook "pods.servingcert.dev": refused`}
	}, `error SC209 Namespace shop: Internal error occurred: failed calling webhook "pods.servingcert.dev": refused`},
	{"another admission plugin refuses", func(_ *testing.T, f *Facts) {
		f.Installation.DryRun = &DryRun{Namespace: "shop", Refusal: "exceeded quota"}
	}, "warning SC209 Namespace shop: the pod was refused before the webhook was called, or by another admission plugin: exceeded quota"},
	{"the pod is not injected", func(_ *testing.T, f *Facts) { f.Installation.DryRun.Created.Labels = nil }, "error SC209 Namespace shop: the pod was not sent to the webhook, or the webhook could not be called and failurePolicy is Ignore: it was not injected"},
	{"no webhook configuration, and no dry run", func(_ *testing.T, f *Facts) {
		f.Installation.NoConfiguration, f.Installation.CABundles, f.Installation.DryRun = true, nil, nil
	}, "error SC210 MutatingWebhookConfiguration servingcert: it does not exist, so the API server calls no webhook, and no pod is injected\ninfo SC002 : this user may create pods in no opted-in namespace (at most 20 were tried): the webhook was not tested"},
	{"no caBundle", func(_ *testing.T, f *Facts) { f.Installation.CABundles = []string{""} }, "error SC210 MutatingWebhookConfiguration servingcert: it has no caBundle"},
	{"another caBundle", func(t *testing.T, f *Facts) {
		f.Installation.Bundle += bundle(t, noon, noon.AddDate(1, 0, 0))
	}, "error SC210 MutatingWebhookConfiguration servingcert: its caBundle is not the published bundle (certificates: 1, published: 2)"},
	{"a clock ahead", func(_ *testing.T, f *Facts) { f.Installation.Skew = -70 * time.Second }, "warning SC211 : the clock of this machine is 1m10s ahead of the API server's"},
	{"a clock behind", func(_ *testing.T, f *Facts) { f.Installation.Skew = 6 * time.Second }, "warning SC211 : the clock of this machine is 6s behind the API server's"},
}

var ofTheAuthority = []breaking{
	{"no CA", func(_ *testing.T, f *Facts) {
		f.Authority.CA.Problem = api.CAMessage{Reason: api.CALost, Message: "restore it"}
	}, "error SC301 : CALost: restore it"},
	{"a warning", func(_ *testing.T, f *Facts) {
		f.Authority.CA.Warnings = []api.CAMessage{{Reason: api.CARestored, Message: "older"}}
	}, "warning SC302 : CARestored: older"},
	{"no trust status", func(_ *testing.T, f *Facts) { f.Authority.Trust = nil }, "warning SC305 : ConfigMap servingcert-trust-status does not exist: the rotator has not run yet"},
	{"no bundle", func(_ *testing.T, f *Facts) { f.Authority.Trust.Problem = "no bundle" }, "warning SC305 : no bundle"},
	{"another bundle", func(_ *testing.T, f *Facts) { f.Authority.Trust.BundleHash = "i" }, "warning SC305 : the rotator's status is about another bundle than the published one"},
	{"a target that refuses", func(_ *testing.T, f *Facts) {
		f.Authority.Trust.Holding, f.Authority.Trust.Refusing = 1, 1
		f.Authority.Trust.NotHolding = []api.TrustTarget{{Kind: "ConfigMap", Namespace: "shop", Name: "x", Reason: "Forbidden", Message: "no"}}
	}, "warning SC305 : ConfigMap shop/x: Forbidden: no"},
	{"a webhook configuration that no role names", func(_ *testing.T, f *Facts) {
		f.Authority.Trust.Holding, f.Authority.Trust.Refusing = 1, 1
		f.Authority.Trust.NotHolding = []api.TrustTarget{{Kind: "ValidatingWebhookConfiguration", Name: "mine", Reason: "Forbidden", Message: "no"}}
	}, "error SC307 ValidatingWebhookConfiguration mine: no"},
	{"a generation that waits", func(_ *testing.T, f *Facts) {
		f.Authority.CA.Phase, f.Authority.CA.Since, f.Authority.CA.NextGeneration = api.PhaseWait, noon.Add(-61*time.Minute), 2
		f.Authority.CA.WaitingFor = "1 of 2 targets hold the new root"
	}, "warning SC302 : generation 2 has waited for 1h1m0s: 1 of 2 targets hold the new root"},
	{"a generation that waits not too long yet", func(_ *testing.T, f *Facts) {
		f.Authority.CA.Phase, f.Authority.CA.Since, f.Authority.CA.NextGeneration = api.PhaseWait, noon.Add(-time.Hour), 2
		f.Authority.CA.Warnings = []api.CAMessage{{Reason: api.CARestored, Message: "older"}}
	}, "warning SC302 : CARestored: older"},
	{"no CA for identities", func(_ *testing.T, f *Facts) {
		f.Identities.CA.Problem = api.CAMessage{Reason: api.CALost, Message: "restore it"}
	}, "error SC301 Secret servingcert-client-ca: CALost: restore it"},
	{"a warning of the CA for identities", func(_ *testing.T, f *Facts) {
		f.Identities.CA.Warnings = []api.CAMessage{{Reason: api.CAConstraintsChanged, Message: "the trust domain stays"}}
	}, "warning SC302 Secret servingcert-client-ca: CAConstraintsChanged: the trust domain stays"},
	{"a generation for identities that waits", func(_ *testing.T, f *Facts) {
		f.Identities.CA.Phase, f.Identities.CA.Since, f.Identities.CA.NextGeneration, f.Identities.CA.WaitingFor = api.PhaseWait, noon.Add(-25*time.Hour), 4, "its root"
	}, "warning SC302 Secret servingcert-client-ca: generation 4 has waited for 25h0m0s: its root"},
	{"no roots for servers", func(_ *testing.T, f *Facts) { f.Identities.Trust = nil }, "warning SC305 ClusterTrustBundle servingcert.dev:client:ca: it does not exist: new pods whose proxy verifies clients do not start"},
	{"other roots for servers", func(_ *testing.T, f *Facts) { f.Identities.Trust.BundleHash = "h" }, "warning SC305 ClusterTrustBundle servingcert.dev:client:ca: it does not have the roots that the CA has published: servers may refuse identities"},
	{"targets that are not listed", func(_ *testing.T, f *Facts) { f.Authority.Trust.Pending = 7 }, "warning SC305 : 7 more targets do not hold the bundle"},
}

var ofServices = []breaking{
	{"a kubelet that was denied", kubeletAsked("Denied", "NameNotPermitted", "IP address 10.9.0.1: is in none of --node-cidrs", 0), "warning SC212 Node worker-1: its CertificateSigningRequest csr-2 was denied: NameNotPermitted: IP address 10.9.0.1: is in none of --node-cidrs"},
	{"a kubelet that waits", kubeletAsked("", "", "", 2*time.Minute), "warning SC212 Node worker-1: its CertificateSigningRequest csr-2 has been pending for 2m0s: an event on it, in namespace default, names the cause"},
	{"a kubelet whose request is not signed", kubeletAsked("Approved", "NodeAddresses", "", 2*time.Minute), "warning SC212 Node worker-1: its CertificateSigningRequest csr-2 was approved, but kube-controller-manager has not signed it: it was created 2m0s ago"},
	{"the signer's clock", func(_ *testing.T, f *Facts) { condition(f, 0, metav1.ConditionFalse, "ClockSkew", "3m ahead") }, "error SC306 Service shop/web: 3m ahead"},
	{"a wrong setting", func(_ *testing.T, f *Facts) { service(f).Annotations[api.AnnotationMode] = "all" }, `error SC401 Service shop/web: servingcert.dev/mode: "all": must be "args", "env" or "mount"`},
	{"not ready", func(_ *testing.T, f *Facts) {
		condition(f, 0, metav1.ConditionFalse, "SecretConflict", "it is another's")
	}, "error SC407 Service shop/web: SecretConflict: it is another's"},
	{"names that wait", func(_ *testing.T, f *Facts) {
		condition(f, 0, metav1.ConditionFalse, api.ReasonWaitingForTrust, "wait")
	}, "warning SC407 Service shop/web: WaitingForTrust: wait"},
	{"another issuer has not renewed it", func(_ *testing.T, f *Facts) {
		condition(f, 0, metav1.ConditionTrue, api.ReasonRenewalOverdue, "late")
	}, "warning SC407 Service shop/web: RenewalOverdue: late"},
	{"of another issuer, and ca.crt does not verify it", func(_ *testing.T, f *Facts) {
		svc := service(f)
		said := state.Say(metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: api.ReasonExternal, Message: "no root"}, state.Ready{Secret: "web-tls", External: true, Unverified: true})
		svc.Status.Conditions = append(said.Both(), svc.Status.Conditions[2:]...)
	}, "warning SC407 Service shop/web: External: no root"},
	{"no condition", func(_ *testing.T, f *Facts) { service(f).Status.Conditions = nil }, "error SC407 Service shop/web: it has no condition servingcert.dev/Ready: the signer has not processed it yet, or is not running"},
	{"no consumers", func(_ *testing.T, f *Facts) { condition(f, 1, metav1.ConditionFalse, api.ServingNoConsumers, "none") }, "warning SC408 Service shop/web: none"},
	{"no consumers, as the webhook noted", func(_ *testing.T, f *Facts) {
		condition(f, 1, metav1.ConditionFalse, api.ServingNoConsumers, "none")
		f.Namespaces[0].Noted = []Noted{
			{"Deployment web", map[string]string{"app": "web"}, []string{"NotServing: no container declares the target port of the Service"}},
			{"Deployment other", map[string]string{"app": "other"}, []string{"x"}},
		}
	}, `warning SC408 Service shop/web: none; the webhook noted on pods of Deployment web: "NotServing: no container declares the target port of the Service"`},
	{"no consumers, as a quota keeps them away", func(_ *testing.T, f *Facts) {
		condition(f, 1, metav1.ConditionFalse, api.ServingNoConsumers, "none")
		f.Namespaces[0].Workloads[0].Failure = "exceeded quota: few"
	}, `error SC508 Deployment shop/web: its pods are not created: "exceeded quota: few"` + "\n" + `warning SC408 Service shop/web: none; Deployment web creates no pods: "exceeded quota: few"`},
	{"no selector", func(_ *testing.T, f *Facts) { service(f).Spec.Selector = nil }, "warning SC406 Service shop/web: it has no selector, so no pod is injected for it"},
	{"stale", func(_ *testing.T, f *Facts) { condition(f, 1, metav1.ConditionFalse, api.ServingStale, "2 pods") }, "warning SC409 Service shop/web: 2 pods"},
	{"pods that fail", func(_ *testing.T, f *Facts) {
		condition(f, 1, metav1.ConditionFalse, api.ServingNoConsumers, "none")
		failing(f)
	}, `warning SC408 Service shop/web: none; condition servingcert.dev/PodsHealthy is False: PodsFailing: container app exits: unknown flag`},
	{"pods that fail and serve nothing", func(_ *testing.T, f *Facts) {
		condition(f, 1, metav1.ConditionUnknown, api.ServingUnreachable, "no answer")
		failing(f)
	}, `warning SC410 Service shop/web: Unreachable: no answer; condition servingcert.dev/PodsHealthy is False: PodsFailing: container app exits: unknown flag`},
	{"plaintext", func(_ *testing.T, f *Facts) { condition(f, 1, metav1.ConditionFalse, api.ServingPlaintext, "no TLS") }, "warning SC410 Service shop/web: Plaintext: no TLS"},
	{"unreachable", func(_ *testing.T, f *Facts) {
		condition(f, 1, metav1.ConditionUnknown, api.ServingUnreachable, "no answer")
	}, "warning SC410 Service shop/web: Unreachable: no answer"},
	{"no port has it", func(_ *testing.T, f *Facts) {
		condition(f, 1, metav1.ConditionFalse, api.ServingNoPort, "no ready pod has targetPort sc-tls-99999")
	}, "warning SC410 Service shop/web: NoPort: no ready pod has targetPort sc-tls-99999"},
	{"on its way", func(_ *testing.T, f *Facts) {
		condition(f, 1, metav1.ConditionFalse, api.ServingPropagating, "not yet")
	}, "info SC410 Service shop/web: Propagating: not yet"},
	{"no condition Serving", func(_ *testing.T, f *Facts) {
		service(f).Status.Conditions = service(f).Status.Conditions[:1]
	}, "warning SC410 Service shop/web: it has no condition servingcert.dev/Serving: the rotator has not probed its pods yet, or is not running"},
	{"an old condition Serving", func(_ *testing.T, f *Facts) {
		outdated(f, written(`{"f:spec":{"f:ports":{}}}`, time.Minute))
	}, "info SC410 Service shop/web: condition servingcert.dev/Serving is about an earlier certificate or other ports: the rotator has not probed the pods since"},
	{"a misspelt targetPort", func(_ *testing.T, f *Facts) {
		ports(f, corev1.ServicePort{Name: "https", Port: 443, TargetPort: intstr.FromString("sc-tsl-8080")})
	}, `warning SC411 Service shop/web: port https: targetPort: "sc-tsl-8080": does not request a proxy: ` + api.MustBeProxyPort},
	{"a targetPort that no pod has", func(_ *testing.T, f *Facts) {
		ports(f, corev1.ServicePort{Name: "https", Port: 443, TargetPort: intstr.FromString("secure")})
	}, `warning SC411 Service shop/web: no pod that it selects has targetPort secure`},
	{"stale behind a proxy", func(_ *testing.T, f *Facts) {
		ports(f, corev1.ServicePort{Name: "https", Port: 443, TargetPort: intstr.FromString("sc-tls-8080")})
		condition(f, 1, metav1.ConditionFalse, api.ServingStale, "2 pods")
	}, "warning SC409 Service shop/web: 2 pods; the proxy in its pods terminates TLS at targetPort sc-tls-8080"},
	{"strangers are admitted", func(_ *testing.T, f *Facts) { guarded(f, metav1.ConditionFalse, api.GuardedAdmits, "one") },
		"error SC410 Service shop/web: condition servingcert.dev/Guarded is False: AdmitsStrangers: one"},
	{"strangers are admitted, and it is not ready", func(_ *testing.T, f *Facts) {
		guarded(f, metav1.ConditionFalse, api.GuardedAdmits, "one")
		condition(f, 0, metav1.ConditionFalse, "X", "y")
	}, "error SC407 Service shop/web: X: y\nerror SC410 Service shop/web: condition servingcert.dev/Guarded is False: AdmitsStrangers: one"},
	{"pods without a list", func(_ *testing.T, f *Facts) { guarded(f, metav1.ConditionFalse, api.GuardedNoList, "old") },
		"error SC410 Service shop/web: condition servingcert.dev/Guarded is False: NoList: old"},
	{"no proxy guards a port", func(_ *testing.T, f *Facts) { guarded(f, metav1.ConditionFalse, api.GuardedNoProxy, "80") },
		"warning SC410 Service shop/web: condition servingcert.dev/Guarded is False: NotProxied: 80"},
	{"not seen to refuse", func(_ *testing.T, f *Facts) { guarded(f, metav1.ConditionUnknown, api.GuardedNotSeen, "why") },
		"warning SC410 Service shop/web: condition servingcert.dev/Guarded is Unknown: NotSeen: why"},
	{"not dialled yet", func(_ *testing.T, f *Facts) { guarded(f, metav1.ConditionUnknown, api.GuardedPending, "why") },
		"info SC410 Service shop/web: condition servingcert.dev/Guarded is Unknown: Pending: why"},
	{"guarded, of other ports", func(_ *testing.T, f *Facts) {
		guarded(f, metav1.ConditionTrue, api.GuardedRefusing, "")
		svc := service(f)
		said := state.Say(svc.Status.Conditions[4], state.Guarded{Of: "0a"})
		svc.Status.Conditions = append(svc.Status.Conditions[:4], said.Both()...)
	}, "warning SC410 Service shop/web: condition servingcert.dev/Guarded is about another list, selector or ports: the rotator has not dialled the pods since"},
	{"guarded, not reported", func(_ *testing.T, f *Facts) { service(f).Annotations[api.AnnotationClients] = "shop/cart" },
		"warning SC410 Service shop/web: it has no condition servingcert.dev/Guarded: the rotator has not seen yet whether its pods refuse clients that it does not list"},
	{"the label is wrong", func(_ *testing.T, f *Facts) {
		f.Namespaces[0].Labels[api.LabelInject], f.Namespaces[0].Services = "yes", nil
	}, `error SC404 Namespace shop: label servingcert.dev/inject: "yes": must be "enabled" or "disabled"`},
	{"the label is missing", func(_ *testing.T, f *Facts) { f.Namespaces[0].Labels = nil }, "warning SC405 Service shop/web: it requests a certificate, but its namespace does not have label servingcert.dev/inject=enabled"},
	{"nothing is selected", func(_ *testing.T, f *Facts) { service(f).Spec.Selector["app"] = "wbe" }, "warning SC406 Service shop/web: no pod has the labels of its selector: app=wbe"},
	{"refused pods", func(_ *testing.T, f *Facts) {
		f.Namespaces[0].Workloads[0].Failure = `pods "web-1" is forbidden: exceeded quota: compute, requested: limits.memory=64Mi, used: limits.memory=1Gi, limited: limits.memory=1Gi`
	}, `error SC508 Deployment shop/web: its pods are not created: "pods \"web-1\" is forbidden: exceeded quota: compute, requested: limits.memory=64Mi, used: limits.memory=1Gi, limited: limits.memory=1Gi"`},
	{"missed pods", func(_ *testing.T, f *Facts) { f.Namespaces[0].Missed = map[string]int{"Deployment web": 3} }, "warning SC504 Deployment shop/web: 3 of its pods run without the certificate that they would get now"},
	{"pods that connect to other ports", func(_ *testing.T, f *Facts) {
		f.Namespaces[0].Drifted = map[string]Drifted{"Deployment web": {2, []string{"calls to db.data leave the pod as its programs make them", "x"}, false}}
	}, "warning SC504 Deployment shop/web: 2 of its pods have another proxy than new pods would: calls to db.data leave the pod as its programs make them; x"},
	{"a pod would be refused", func(_ *testing.T, f *Facts) {
		f.Namespaces[0].Workloads[0].Template.Annotations[api.AnnotationTrust] = "yes"
	}, `error SC502 Deployment shop/web: servingcert.dev/trust: "yes": must be "false", "true" or "env"`},
}

// If servingcert is not installed, this is the only finding.
func TestServingcertIsNotInstalled(t *testing.T) {
	(breaking{"gone", func(_ *testing.T, f *Facts) {
		i := f.Installation
		clear(i.Deployments)
		clear(i.Leases)
		f.Failures = []Failure{{What: "Pods in servingcert-system", Why: "forbidden", Kind: ReadForbidden, Checks: []ID{Versions}}}
	}, "error SC201 Namespace servingcert-system: servingcert is not installed: none of its Deployments exists"}).run(t)

	f := healthy(t)
	clear(f.Installation.Deployments)
	assert.Equal(t, len(components), f.Examine(noon).Errors, "its processes may run without Deployments: they hold their Leases")
}

// renewing are the fields of a manager that renews a Lease.
var renewing = metav1.NewFieldsV1(`{"f:spec":{"f:renewTime":{}}}`)

// The age of a Lease is by the API server's clock: the clocks of its holder and of this machine may be wrong.
func TestALeaseAgesByTheClockOfTheAPIServer(t *testing.T) {
	f := healthy(t)
	for _, lease := range f.Installation.Leases {
		behind, written := metav1.NewMicroTime(noon.Add(-time.Hour)), metav1.NewTime(noon.Add(-2*time.Second))
		lease.Spec.RenewTime, lease.ManagedFields = &behind, []metav1.ManagedFieldsEntry{{Time: &written, FieldsV1: renewing}}
	}
	assert.Empty(t, f.Examine(noon).AtLeast(Info))
}

func TestWebhookOf(t *testing.T) {
	no, yes := false, true
	slice := func(ready ...*bool) discoveryv1.EndpointSlice {
		var s discoveryv1.EndpointSlice
		for _, r := range ready {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: r}})
		}
		return s
	}
	for _, c := range []struct {
		of   []discoveryv1.EndpointSlice
		want ProcessState
	}{
		{nil, ProcessAway}, // its Service is deleted: the API server cannot call it
		{[]discoveryv1.EndpointSlice{slice()}, ProcessAway},
		{[]discoveryv1.EndpointSlice{slice(&no), slice(&no)}, ProcessAway},
		{[]discoveryv1.EndpointSlice{slice(&no), slice(&no, &yes)}, ProcessRuns},
		{[]discoveryv1.EndpointSlice{slice(nil)}, ProcessRuns},
	} {
		p := WebhookOf("sys", c.of)
		assert.Equal(t, c.want, p.State)
		assert.Equal(t, c.want == ProcessRuns, p.Why == "")
	}
}

func everyBreaking() []breaking {
	return slices.Concat(ofThePlatform, ofTheInstallation, ofTheAuthority, ofServices)
}

func TestWhatIsFound(t *testing.T) {
	for _, b := range everyBreaking() {
		t.Run(b.name, b.run)
	}
}

func TestWhatQuotasCount(t *testing.T) {
	for name, spoil := range map[string]func(p *Platform){
		"enough is free": func(p *Platform) {
			p.Quotas = quotaOfPods(list("pods", "3", "requests.memory", "1Gi"), list("pods", "2"))
		},
		"of pods that end": func(p *Platform) {
			p.Quotas = quotaOfPods(list("pods", "0"), nil, corev1.ResourceQuotaScopeTerminating)
		},
		"of another resource": func(p *Platform) { p.Quotas = quotaOfPods(list("requests.storage", "0", "count/secrets", "0"), nil) },
		"of another priority": func(p *Platform) {
			p.Quotas = quotaOfPods(list("pods", "0"), nil)
			p.Quotas[0].Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"low"}}}}
		},
		"a LimitRange sets what is missing": func(p *Platform) {
			p.Quotas = quotaOfPods(list("limits.cpu", "3"), nil)
			p.LimitRanges = limits(corev1.LimitRangeItem{Default: list("cpu", "1")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy(t)
			spoil(f.Platform)
			assert.Empty(t, f.Examine(noon).AtLeast(Info))
		})
	}
}

// TestEveryCheckHasACase: each check has a case that it finds.
func TestEveryCheckHasACase(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range everyBreaking() {
		seen[strings.Fields(b.want)[1]] = true
	}
	for _, file := range []string{"ports.yaml", "services.yaml", "workloads.yaml", "three.yaml", "notes.yaml"} {
		for _, f := range analyzed(t, file, Options{}).AtLeast(Info) {
			seen[string(f.ID)] = true
		}
	}
	for _, c := range checks {
		assert.True(t, seen[string(c.ID)], "no case finds %s (%s)", c.ID, c.Name)
	}
}

// Without the objects that it needs, a check neither passes nor fails.
func TestFailedReadsSkipChecks(t *testing.T) {
	f := healthy(t)
	i := f.Installation
	i.Deployments, i.Leases, i.Pods, i.DryRun, i.Bundle = nil, nil, nil, nil, ""
	f.Namespaces, f.Authority, i.KubeletRequests = nil, nil, nil
	unread := []ID{Installed, Available, Leases, Versions, WebhookReached, CABundle}
	assert.True(t, f.Examine(noon).Examined())
	f.Failures = []Failure{{What: "everything", Why: "forbidden", Kind: ReadForbidden, Checks: unread}}
	r := f.Examine(noon)
	for _, found := range r.Findings {
		assert.NotContains(t, append(unread, NotOptedIn, SignerClock, NotReady, CAProblem), found.ID, found.Message)
	}
	f.Platform = nil
	assert.False(t, f.Examine(noon).Examined(), "no check was made")
}

// The fix of a program in the table of programs is its way to reload.
func TestHowAStaleProgramReloads(t *testing.T) {
	for image, want := range map[string]string{
		"postgres:17":      "Make postgres in Deployment web reload its files: SIGHUP to the postgres process, or SELECT pg_reload_conf(). Or set servingcert.dev/on-rotate: restart on the pod template to have it restarted.",
		"traefik/whoami":   CheckOf(Stale).Fix,
		"example.com/mine": CheckOf(Stale).Fix,
	} {
		f := healthy(t)
		condition(&f, 1, metav1.ConditionFalse, api.ServingStale, "2 pods")
		f.Namespaces[0].Workloads[0].Template.Spec.Containers[0].Image = image
		found := f.Examine(noon).AtLeast(Info)
		require.Len(t, found, 1)
		assert.Equal(t, want, found[0].Fix, image)
	}
}

func TestStrict(t *testing.T) {
	warning, err := NewReport([]Finding{found(Stale, "", "x")}, nil), NewReport([]Finding{found(NotReady, "", "x"), found(Stale, "", "x")}, nil)
	assert.False(t, warning.Failed(false))
	assert.True(t, warning.Failed(true))
	assert.True(t, err.Failed(false))
	assert.Equal(t, []int{1, 1}, []int{err.Errors, err.Warnings})
	assert.Equal(t, Error, err.Findings[0].Level, "the worst first")
}

func TestSuggest(t *testing.T) {
	keys := api.OnService.Annotations()
	for text, want := range map[string]string{
		api.Domain + "/secretname": api.AnnotationSecretName, api.Domain + "/secret-naem": api.AnnotationSecretName,
		api.Domain + "/key-algorythm": api.AnnotationKeyAlgorithm, api.Domain + "/extra-dns-name": api.AnnotationExtraDNSNames,
	} {
		assert.Equal(t, want, Suggest(text, keys))
	}
	assert.Empty(t, Suggest(api.Domain+"/something", keys), "the prefix does not make it similar")
	assert.Empty(t, Suggest("x", nil))
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"abcd", "abdc", 1}, {"é", "e", 1}} {
		assert.Equal(t, c.want, distance(c.a, c.b), c)
		assert.Equal(t, c.want, distance(c.b, c.a), c)
	}
}

// outdated makes condition Serving one about other ports, after writes to the Service.
func outdated(f *Facts, writes ...metav1.ManagedFieldsEntry) {
	svc := service(f)
	said := state.Say(svc.Status.Conditions[2], state.Serving{Ports: "0a"})
	svc.Status.Conditions = append(svc.Status.Conditions[:2], said.Both()...)
	svc.ManagedFields = writes
}

// written is a write of fields before noon.
func written(fields string, before time.Duration) metav1.ManagedFieldsEntry {
	at := metav1.NewTime(noon.Add(-before))
	return metav1.ManagedFieldsEntry{Time: &at, FieldsV1: metav1.NewFieldsV1(fields)}
}

// TestAnOutdatedConditionLasts: the rotator may be about to probe only after a change of what it probes.
func TestAnOutdatedConditionLasts(t *testing.T) {
	const (
		ports   = `{"f:spec":{"f:ports":{}}}`
		ready   = `{"f:status":{"f:conditions":{"k:{\"type\":\"servingcert.dev/Ready\"}":{}}}}`
		setting = `{"f:metadata":{"f:annotations":{"f:servingcert.dev/probe":{}}}}`
		serving = `{"f:status":{"f:conditions":{"k:{\"type\":\"servingcert.dev/Serving\"}":{}}}}`
		other   = `{"f:metadata":{"f:labels":{"f:team":{}}},"f:status":{"f:loadBalancer":{}}}`
	)
	for name, tt := range map[string]struct {
		writes []metav1.ManagedFieldsEntry
		want   Level
	}{
		"new ports":                     {[]metav1.ManagedFieldsEntry{written(ready, time.Hour), written(ports, time.Minute)}, Info},
		"a new certificate":             {[]metav1.ManagedFieldsEntry{written(ports, time.Hour), written(ready, time.Minute)}, Info},
		"a new setting":                 {[]metav1.ManagedFieldsEntry{written(ports, time.Hour), written(setting, time.Minute)}, Info},
		"at the bound":                  {[]metav1.ManagedFieldsEntry{written(ports, probeTime)}, Info},
		"after the bound":               {[]metav1.ManagedFieldsEntry{written(ports, probeTime+time.Second)}, Warning},
		"others write something else":   {[]metav1.ManagedFieldsEntry{written(ports, time.Hour), written(other, time.Second), written(serving, time.Second)}, Warning},
		"it is unknown when it changed": {[]metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(ports)}, {}}, Warning},
	} {
		f := healthy(t)
		outdated(&f, tt.writes...)
		found := f.Examine(noon).AtLeast(Info)
		require.Len(t, found, 1, name)
		assert.Equal(t, NotServed, found[0].ID, name)
		assert.Equal(t, tt.want, found[0].Level, name)
		assert.Equal(t, tt.want == Warning, f.Examine(noon).Failed(true), name)
	}
}

// TestNotServedDoesNotPassWithoutConsumers: the check cannot be made for the Service.
func TestNotServedDoesNotPassWithoutConsumers(t *testing.T) {
	passed := func(f Facts) bool {
		return slices.ContainsFunc(f.Examine(noon).Findings, func(f Finding) bool { return f.ID == NotServed && f.Level == OK })
	}
	f := healthy(t)
	assert.True(t, passed(f))
	condition(&f, 1, metav1.ConditionFalse, api.ServingNoConsumers, "no ready pod mounts it")
	assert.False(t, passed(f))
}

// The printed command can be run unchanged.
func TestTheRoleOfAWebhookConfiguration(t *testing.T) {
	s := &State{TrustAccount: "tls:servingcert-trust"}
	f, ok := s.missingRole(api.TrustTarget{Kind: "MutatingWebhookConfiguration", Name: "mine.example.com", Reason: "Forbidden", Message: "no"})
	require.True(t, ok)
	assert.Equal(t, "Apply the ClusterRole: kubectl create clusterrole servingcert-trust-mine.example.com --verb=patch --resource=mutatingwebhookconfigurations.admissionregistration.k8s.io --resource-name=mine.example.com && "+
		"kubectl create clusterrolebinding servingcert-trust-mine.example.com --clusterrole=servingcert-trust-mine.example.com --serviceaccount=tls:servingcert-trust", f.Fix)
	for _, other := range []api.TrustTarget{
		{Kind: "MutatingWebhookConfiguration", Name: "mine", Reason: "Conflict"},
		{Kind: "MutatingWebhookConfiguration", Name: api.TrustAllOfKind, Reason: "Forbidden"},
		{Kind: "APIService", Name: "mine", Reason: "Forbidden"},
	} {
		_, ok := s.missingRole(other)
		assert.False(t, ok, "%v", other)
	}
}
