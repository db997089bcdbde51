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

// Facts are all that the cache stores of a pod. They are a runtime.Object, so that an informer can
// store them in place of the pod.
type Facts struct {
	metav1.TypeMeta
	// ObjectMeta has namespace, name, resource version and deletion timestamp. It has a UID if the
	// pod is bare, is in trouble, mounts a Secret or the CA bundle, or mirrors a static pod; for
	// the last three also the creation timestamp.
	metav1.ObjectMeta
	Template unique.Handle[Template]
	// IP is the first of the pod's addresses, if it can serve (see canServe).
	IP netip.Addr
	// HostNetwork: the pod uses its node's network. OnNode: IP is a node address in its status.
	HostNetwork, OnNode bool
	// Ready: it can serve, has an address, and receives requests.
	Ready bool
	// Running: it mounts a Secret or the CA bundle, and its containers were started.
	Running bool
	// leaf is annotation api.AnnotationLeaf. Pods with equal mounts share one string.
	leaf unique.Handle[string]
	// Admits is annotation api.AnnotationAdmits of a pod whose proxy reads it. Of one that is longer than
	// maxAdmits, it is the beginning.
	Admits string
	// Trouble is nil for most pods.
	Trouble *Trouble
}

// Template has the facts that all pods of a template share. The pods reference one copy.
type Template struct {
	Namespace  string
	Labels     string // "key=value,…" by key, which no label's characters can break
	SecretName string // from the pod's annotation
	// mounts are the keys in the pod's volumes as text, sorted and separated by commas; at most
	// api.MaxMounts. See Keys.
	mounts string
	// Bundle: the CA bundle, ConfigMap api.BundleName, is in one of the volumes.
	Bundle bool
	// Roots: the CA bundle is in one of the volumes, as that ConfigMap or as the
	// ClusterTrustBundle.
	Roots bool
	// Reloads: an annotation states that the pods reload their files.
	Reloads bool
	// Restarts: the pods may be restarted for a new certificate, and one of their programs is known
	// to load it only at its start.
	Restarts bool
	// Hostname and Subdomain are the pod's name below a headless Service, if the pod has its own
	// key; empty for other pods.
	Hostname, Subdomain string
	// Ports are the TCP ports that the containers declare; see TCPPorts.
	Ports        string
	OnRotate     api.OnRotate
	Workload     Workload
	DeclaresPort bool // of any protocol
	OneShot      bool // it runs to completion; see api.OneShot
	// Left is the reason for which the pod is exempt whatever its namespace contains, or empty.
	Left Reason
	// Mistake is the error for which the webhook would reject the pod, or empty.
	Mistake string
	// Explained is the key that the webhook did not inject, with a reason in the pod's status; or
	// zero.
	Explained Key
	// Noted is what the webhook noted on the pods of a workload, where nobody reads its warnings;
	// empty for other pods.
	Noted string
	// Injection is empty for pods that were not injected.
	Injection Injection
	// Guarded are the names of the ports of a proxy that reads which clients it admits, separated by commas;
	// empty if there is none, or if Labels are not all of the pod's, so that its Services are not known.
	Guarded string
	// startTLS is the STARTTLS protocol of each port as the webhook recorded it, PORT=PROTOCOL
	// separated by commas; see Protocols.
	startTLS string
	// sketch is the choose.Sketch of the pods, encoded; zero if there is nothing in it, as for most pods. See Client.
	sketch unique.Handle[string]
}

// Reason explains why a pod is injected, exempt or uninjected: one of these, or one of package
// uninjected.
type Reason string

// Why a pod is exempt whatever its namespace contains.
const (
	ReasonMirrorPod Reason = api.ExemptMirrorPod // a static pod's mirror
	ReasonOptedOut  Reason = api.ExemptOptedOut  // by its label
	ReasonWindows   Reason = api.ExemptWindows   // Windows pods are never injected
	ReasonFinished  Reason = "Finished"          // its containers have terminated
)

// explained returns the key that the webhook did not inject, with a reason in the status.
func explained(status api.InjectionStatus) Key {
	if status.Reason != "" && status.KeySource == api.KeySourcePod {
		return PodKey
	}
	return SecretKey(shortName(status.NotInjectedFor()))
}

// FactsOf derives the facts of a pod. They have at most MaxKept bytes of text.
func FactsOf(pod *corev1.Pod) *Facts {
	request, err := api.ParsePod(&pod.ObjectMeta)
	status, _ := api.ParseInjectionStatus(pod.Annotations[api.AnnotationStatus])
	mounted := mountsOf(pod.Spec.Volumes)
	t := Template{
		Namespace:    pod.Namespace,
		Labels:       encodeLabels(pod.Labels),
		SecretName:   request.SecretName,
		mounts:       strings.Join(mounted, ","),
		Bundle:       slices.ContainsFunc(pod.Spec.Volumes, holdsBundle),
		Roots:        slices.ContainsFunc(pod.Spec.Volumes, holdsRoots),
		Reloads:      pod.Annotations[api.AnnotationOnRotate] == string(api.OnRotateReload),
		OnRotate:     onRotate(pod),
		Workload:     workloadOf(pod),
		Ports:        portsOf(pod, mounted),
		DeclaresPort: api.DeclaresPort(pod),
		OneShot:      api.OneShot(pod),
		Left:         leftAlone(pod, request),
		// A copied or forged status can only exclude its own pod from the count.
		Explained: explained(status),
	}
	t.Noted = notedOf(status, t.Workload)
	t.Restarts = t.OnRotate == api.OnRotateRestart && len(status.Restarts) > 0
	t.Injection, t.startTLS = injectionOf(pod, status, t.Left), startTLSOf(status)
	t.Guarded = guardedOf(pod, t.Labels)
	if err != nil {
		t.Mistake, t.SecretName = Shorten(err.Error()), shortName(pod.Annotations[api.AnnotationSecretName])
	}
	t.sketch = sketchOf(pod, &t)
	if (t.HasPodKey() || t.Mounts(OtherPodKey)) && pod.Spec.Hostname != "" && pod.Spec.Subdomain != "" {
		t.Hostname, t.Subdomain = beginning(pod.Spec.Hostname, maxHostname), beginning(pod.Spec.Subdomain, maxHostname)
	}
	f := &Facts{Template: unique.Make(t)}
	f.ObjectMeta = metav1.ObjectMeta{
		Namespace:         f.Template.Value().Namespace, // the shared copy
		Name:              pod.Name,
		ResourceVersion:   pod.ResourceVersion,
		DeletionTimestamp: pod.DeletionTimestamp,
	}
	f.Trouble = troubleOf(pod, status, t.Injection)
	if f.Trouble != nil || t.Workload == (Workload{}) || t.canServe() || t.Roots {
		f.UID = pod.UID
	}
	if t.canServe() || t.Roots {
		f.CreationTimestamp = pod.CreationTimestamp
		f.Running = pod.Status.Phase == corev1.PodRunning
		f.leaf = unique.Make(leafOf(pod.Annotations[api.AnnotationLeaf], mounted))
	}
	if t.Guarded != "" {
		f.Admits = unique.Make(beginning(pod.Annotations[api.AnnotationAdmits], maxAdmits)).Value() // pods of a workload share it
	}
	if t.canServe() {
		f.IP, _ = netip.ParseAddr(pod.Status.PodIP) // the zero Addr if it has no address yet
		f.HostNetwork, f.OnNode = pod.Spec.HostNetwork, isOnNode(pod, f.IP)
		f.Ready = f.IP.IsValid() && isReady(pod)
	}
	return f
}

// onRotate reads the annotation even if the pod is not injected, or has an invalid annotation: it
// may mount a Secret anyway. A proxy reloads, so a restart does not help where no other container
// mounts a key. Only its node can restart a static pod.
func onRotate(pod *corev1.Pod) api.OnRotate {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror || onlyProxyHasKey(pod) {
		return api.OnRotateReload
	}
	switch v := api.OnRotate(pod.Annotations[api.AnnotationOnRotate]); v {
	case api.OnRotateRestart, api.OnRotateNone:
		return v
	}
	return api.OnRotateReload
}

// onlyProxyHasKey reports whether the pod has a proxy, and none of its other containers mounts
// a volume with a key.
func onlyProxyHasKey(pod *corev1.Pod) bool {
	proxy, ok := api.ProxyOf(pod)
	if !ok {
		return false
	}
	keys := map[string]bool{}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		keys[v.Name] = len(keysIn(v)) > 0 || slices.Contains(podKeysIn(v), podKeyText)
	}
	return !slices.ContainsFunc(api.RunningContainers(pod), func(c api.ContainerRef) bool {
		other := !c.Init || c.Index != proxy.Index
		return other && slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return keys[m.Name] })
	})
}

// isOnNode reports whether the address is a node address in the pod's status.
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

// Mirror reports whether the pods mirror static pods. Those read keys from files of their node,
// which no volume shows. A pod that mounts a Secret does not mirror one.
func (t Template) Mirror() bool { return t.Left == ReasonMirrorPod && t.mounts == "" }

// canServe reports whether the pods may serve a certificate of this signer.
func (t Template) canServe() bool { return t.mounts != "" || t.Mirror() }

// Leaf returns annotation api.AnnotationLeaf of a pod that mounts a Secret or the CA
// bundle, or "".
func (f *Facts) Leaf() string {
	if f.leaf == (unique.Handle[string]{}) {
		return ""
	}
	return f.leaf.Value()
}

// shortName returns the beginning of a name that is too long to be valid.
func shortName(name string) string {
	return strings.Clone(name[:min(len(name), validation.DNS1123SubdomainMaxLength+1)])
}

// leftAlone returns why the pod is exempt by itself, or "".
func leftAlone(pod *corev1.Pod, request api.PodRequest) Reason {
	if reason := api.Exempt(pod, request); reason != "" {
		return Reason(reason)
	}
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return ReasonFinished
	}
	return ""
}
