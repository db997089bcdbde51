package rotator

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/servingcert/servingcert/pkg/api"
)

// PodFacts is all that is remembered of a pod. It is a runtime.Object so that an
// informer can hold it in a pod's place.
type PodFacts struct {
	metav1.TypeMeta
	// ObjectMeta holds namespace, name, resource version and deletion; the UID of
	// a pod that no workload made or that mounts a Secret, and when the latter was
	// created; nothing else.
	metav1.ObjectMeta
	Template unique.Handle[Template]
	// IP is the pod's, if it mounts a Secret: of several, the one of its node's
	// first family.
	IP netip.Addr
	// Ready: it mounts a Secret, has an address, and gets requests.
	Ready bool
}

// Template is what the pods of one template have in common, and what all that is
// decided about a pod follows from. One copy serves all of them.
type Template struct {
	Namespace  string
	Labels     string // "key=value,…" by key, which no label's characters can break
	SecretName string // the Secret that the pod names itself
	// Mounts are the Secrets whose key is in one of the pod's volumes, sorted
	// and separated by commas.
	Mounts string
	// Ports are the TCP ports of a pod that mounts a Secret (ports.go).
	Ports    string
	OnRotate api.OnRotate
	Workload Workload
	// Conventional: it gets the conventional Secret where there is one, unless
	// something else decides.
	Conventional bool
	// Left is why the pod is left alone whatever its namespace holds, or empty.
	Left Reason
	// Mistake is what the webhook would refuse the pod for, or empty.
	Mistake string
	// Explained is the Secret for which the webhook saw the pod and said why
	// nothing was injected, or empty.
	Explained string
}

// FactsOf derives the facts of a pod.
func FactsOf(pod *corev1.Pod) *PodFacts {
	request, err := api.ParsePod(&pod.ObjectMeta)
	t := Template{
		Namespace:    pod.Namespace,
		Labels:       encodeLabels(pod.Labels),
		SecretName:   request.SecretName,
		Mounts:       strings.Join(mounts(pod.Spec.Volumes), ","),
		OnRotate:     onRotate(pod),
		Workload:     workloadOf(pod),
		Conventional: api.DeclaresPort(pod) && !api.OwnedByJob(pod),
		Left:         leftAlone(pod, request),
		Explained:    explained(pod.Annotations[api.AnnotationStatus]),
	}
	if err != nil {
		t.Mistake, t.SecretName = err.Error(), pod.Annotations[api.AnnotationSecretName]
	}
	if t.Mounts != "" {
		t.Ports = portsOf(pod)
	}
	f := &PodFacts{Template: unique.Make(t)}
	f.ObjectMeta = metav1.ObjectMeta{
		Namespace:         f.Template.Value().Namespace, // the copy that all share
		Name:              pod.Name,
		ResourceVersion:   pod.ResourceVersion,
		DeletionTimestamp: pod.DeletionTimestamp,
	}
	if t.Workload == (Workload{}) || t.Mounts != "" {
		f.UID = pod.UID
	}
	if t.Mounts != "" {
		f.CreationTimestamp = pod.CreationTimestamp
		f.IP, _ = netip.ParseAddr(pod.Status.PodIP) // the zero Addr if it has none yet
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

// isReady reports whether Services send requests to the pod.
func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning &&
		slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
}

// DeepCopyObject implements runtime.Object.
func (f *PodFacts) DeepCopyObject() runtime.Object {
	out := *f
	f.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// mounts returns the Secrets whose key is in one of its volumes.
func (f *PodFacts) mounts() []string {
	if m := f.Template.Value().Mounts; m != "" {
		return strings.Split(m, ",")
	}
	return nil
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

// mounts returns the Secrets whose private key is in a volume, whoever wrote the
// volume.
func mounts(volumes []corev1.Volume) []string {
	var names []string
	for i := range volumes {
		names = append(names, keysIn(&volumes[i])...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// keysIn returns the Secrets whose private key is in the volume. A client that
// mounts nothing but ca.crt of a Secret does not serve it.
func keysIn(v *corev1.Volume) []string {
	var names []string
	add := func(name string, items []corev1.KeyToPath) {
		hasKey := func(i corev1.KeyToPath) bool { return i.Key == corev1.TLSPrivateKeyKey }
		if len(items) == 0 || slices.ContainsFunc(items, hasKey) {
			names = append(names, name)
		}
	}
	if v.Secret != nil {
		add(v.Secret.SecretName, v.Secret.Items)
	}
	if v.Projected != nil {
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				add(s.Secret.Name, s.Secret.Items)
			}
		}
	}
	return names
}

// explained returns the Secret for which the webhook's status says why it was not
// injected, or "". A copied or forged status can only keep its pod out of the count.
func explained(status string) (secret string) {
	s, _ := api.ParseInjectionStatus(status)
	return s.NotInjectedFor()
}

func encodeLabels(labels map[string]string) string {
	var b strings.Builder
	for i, k := range slices.Sorted(maps.Keys(labels)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(k + "=" + labels[k])
	}
	return b.String()
}

func decodeLabels(s string) map[string]string {
	if s == "" {
		return nil
	}
	labels := make(map[string]string, strings.Count(s, ",")+1)
	for pair := range strings.SplitSeq(s, ",") {
		k, v, _ := strings.Cut(pair, "=")
		labels[k] = v
	}
	return labels
}
