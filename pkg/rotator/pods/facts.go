package pods

import (
	"net/netip"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
)

// Facts is all that is remembered of a pod. It is a runtime.Object, so that an
// informer can hold it in place of the pod.
type Facts struct {
	metav1.TypeMeta
	// ObjectMeta holds namespace, name, resource version and deletion; the UID of
	// a pod that no workload made, that crashes, or that mounts a Secret or the CA
	// bundle, and when those that mount one were created; nothing else.
	metav1.ObjectMeta
	Template unique.Handle[Template]
	// IP is the pod's, if it mounts a Secret: of several, the one of its node's
	// first family.
	IP netip.Addr
	// HostNetwork: the pod has its node's addresses. OnNode: IP is one of those that
	// its status names as its node's.
	HostNetwork, OnNode bool
	// Ready: it mounts a Secret, has an address, and gets requests.
	Ready bool
	// Running: it mounts a Secret or the CA bundle, and its containers were started.
	Running bool
	// leaf is annotation api.AnnotationLeaf: one copy serves the pods that mount the
	// same.
	leaf unique.Handle[string]
	// Crashes and Unready are nil for most pods.
	Crashes *Crashes
	Unready *Unready
}

// Template is what the pods of one template have in common, and what all that is
// decided about a pod follows from. One copy serves all of them.
type Template struct {
	Namespace  string
	Labels     string // "key=value,…" by key, which no label's characters can break
	SecretName string // the Secret that the pod names itself
	// Mounts are the Secrets (or PodKey) whose key is in one of the pod's volumes, sorted
	// and separated by commas, at most api.MaxMounts.
	Mounts string
	// Bundle: the CA bundle, ConfigMap api.BundleName, is in one of the volumes.
	Bundle bool
	// Hostname and Subdomain give a pod with a key of its own its name below a headless
	// Service; empty for other pods.
	Hostname, Subdomain string
	// Ports are the TCP ports that the containers declare; see TCPPorts.
	Ports        string
	OnRotate     api.OnRotate
	Workload     Workload
	DeclaresPort bool // of whatever protocol
	OneShot      bool // it runs something to its end; see api.OneShot
	// Left is why the pod is left alone whatever its namespace holds, or empty.
	Left Reason
	// Mistake is what the webhook would refuse the pod for, or empty.
	Mistake string
	// Explained is the Secret (or PodKey) for which the webhook saw the pod and said why
	// nothing was injected, or empty.
	Explained string
	// Given is empty for most pods.
	Given Given
}

// Reason is what the judgement of a pod rests on: one of these, or one of
// package missed.
type Reason string

// Why a pod is left alone whatever its namespace holds.
const (
	ReasonMirrorPod Reason = api.ExemptMirrorPod // it mirrors a static pod
	ReasonOptedOut  Reason = api.ExemptOptedOut  // its label says so
	ReasonWindows   Reason = api.ExemptWindows   // nothing is injected into Windows pods
	ReasonFinished  Reason = "Finished"          // its containers have ended for good
	ReasonTooLarge  Reason = "TooLarge"          // there is no room to remember it; see Facts.Reduce
)

// explained returns for what the webhook said why nothing was injected.
func explained(status api.InjectionStatus) string {
	if status.Reason != "" && status.KeySource == api.KeySourcePod {
		return PodKey
	}
	return shortName(status.NotInjectedFor())
}

// FactsOf derives the facts of a pod. They have at most MaxKept bytes of text.
func FactsOf(pod *corev1.Pod) *Facts {
	request, err := api.ParsePod(&pod.ObjectMeta)
	status, _ := api.ParseInjectionStatus(pod.Annotations[api.AnnotationStatus])
	mounted := mounts(pod.Spec.Volumes)
	t := Template{
		Namespace:    pod.Namespace,
		Labels:       encodeLabels(pod.Labels),
		SecretName:   request.SecretName,
		Mounts:       strings.Join(mounted, ","),
		Bundle:       slices.ContainsFunc(pod.Spec.Volumes, holdsBundle),
		OnRotate:     onRotate(pod),
		Workload:     workloadOf(pod),
		Ports:        portsOf(pod, mounted),
		DeclaresPort: api.DeclaresPort(pod),
		OneShot:      api.OneShot(pod),
		Left:         leftAlone(pod, request),
		// A copied or forged status can only keep its pod out of the count.
		Explained: explained(status),
	}
	t.Given = givenOf(pod, status, t.Left)
	if err != nil {
		t.Mistake, t.SecretName = Shorten(err.Error()), shortName(pod.Annotations[api.AnnotationSecretName])
	}
	if slices.Contains(mounted, PodKey) && pod.Spec.Hostname != "" && pod.Spec.Subdomain != "" {
		t.Hostname, t.Subdomain = beginning(pod.Spec.Hostname, maxHostname), beginning(pod.Spec.Subdomain, maxHostname)
	}
	f := &Facts{Template: unique.Make(t)}
	f.ObjectMeta = metav1.ObjectMeta{
		Namespace:         f.Template.Value().Namespace, // the copy that all share
		Name:              pod.Name,
		ResourceVersion:   pod.ResourceVersion,
		DeletionTimestamp: pod.DeletionTimestamp,
	}
	f.Crashes = crashesOf(pod, status, &t)
	f.Unready = unreadyOf(pod, status, &t)
	if f.Crashes != nil || t.Workload == (Workload{}) || t.Mounts != "" || t.Bundle {
		f.UID = pod.UID
	}
	if t.Mounts != "" || t.Bundle {
		f.CreationTimestamp = pod.CreationTimestamp
		f.Running = pod.Status.Phase == corev1.PodRunning
		f.leaf = unique.Make(leafOf(pod.Annotations[api.AnnotationLeaf], mounted))
	}
	if t.Mounts != "" {
		f.IP, _ = netip.ParseAddr(pod.Status.PodIP) // the zero Addr if it has none yet
		f.HostNetwork, f.OnNode = pod.Spec.HostNetwork, isOnNode(pod, f.IP)
		f.Ready = f.IP.IsValid() && isReady(pod)
	}
	return f
}

// onRotate reads the annotation by itself: a pod that is not to be injected, or
// that says something else that is wrong, may mount a Secret all the same.
func onRotate(pod *corev1.Pod) api.OnRotate {
	switch v := api.OnRotate(pod.Annotations[api.AnnotationOnRotate]); v {
	case api.OnRotateRestart, api.OnRotateNone:
		return v
	}
	return api.OnRotateReload
}

// isOnNode reports whether the address is one that the pod's status names as its node's.
func isOnNode(pod *corev1.Pod, ip netip.Addr) bool {
	is := func(text string) bool {
		host, err := netip.ParseAddr(text)
		return err == nil && host.Unmap() == ip.Unmap()
	}
	return is(pod.Status.HostIP) || slices.ContainsFunc(pod.Status.HostIPs, func(h corev1.HostIP) bool { return is(h.IP) })
}

// isReady reports whether Services send requests to the pod.
func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning &&
		slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
}

// DeepCopyObject implements runtime.Object.
func (f *Facts) DeepCopyObject() runtime.Object {
	out := *f
	f.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// Leaf returns annotation api.AnnotationLeaf of a pod that mounts a Secret or the CA
// bundle, or "".
func (f *Facts) Leaf() string {
	if f.leaf == (unique.Handle[string]{}) {
		return ""
	}
	return f.leaf.Value()
}

// Mounts returns the names of the Secrets whose key is in one of its volumes.
func (f *Facts) Mounts() []string {
	return f.Template.Value().mounted()
}

func (t Template) mounted() []string {
	if t.Mounts == "" {
		return nil
	}
	return strings.Split(t.Mounts, ",")
}

// shortName returns the beginning of a name that is too long to be one.
func shortName(name string) string {
	return strings.Clone(name[:min(len(name), validation.DNS1123SubdomainMaxLength+1)])
}

// leftAlone returns why the pod is left alone by what it is, or "".
func leftAlone(pod *corev1.Pod, request api.PodRequest) Reason {
	if reason := api.Exempt(pod, request); reason != "" {
		return Reason(reason)
	}
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return ReasonFinished
	}
	return ""
}
