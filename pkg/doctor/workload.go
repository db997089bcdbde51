package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Workload is an object that creates pods, or a pod without an owner.
type Workload struct {
	Kind, Name string
	// Annotations are those of the object itself; nil for a pod.
	Annotations map[string]string
	Template    corev1.PodTemplateSpec
	// KeepsOldPods is api.KeepsOldPods of the workload; Paused is spec.paused.
	KeepsOldPods, Paused bool
	// Failure is the error if its pods cannot be created, from its status or from an event, or "".
	Failure string
}

func (w Workload) object(namespace string) string {
	return fmt.Sprintf("%s %s/%s", w.Kind, namespace, w.Name)
}

// workload returns the findings about a workload.
func (n Namespace) workload(w Workload) []Finding {
	object := w.object(n.Name)
	var out []Finding
	for _, key := range ours(w.Annotations) {
		f := found(WrongPlace, object, "%s is on the %s itself, where it has no effect", api.Shorten(key, maxKey), w.Kind).annotation(key)
		if !slices.Contains(api.OnPod.Annotations(), key) {
			f = f.do("Remove it.")
		}
		out = append(out, f)
	}
	for _, f := range unknown(api.OnPod, object, w.Template.Annotations) {
		out = append(out, f.inTemplate())
	}
	for _, err := range api.PodProblems(&w.Template.ObjectMeta) {
		out = append(out, found(Refused, object, "%v", err).field(err).inTemplate())
	}
	if count := n.Missed[w.Kind+" "+w.Name]; count > 0 {
		out = append(out, w.again(n.Name, found(Missed, object, "%d of its pods run without the certificate that they would get now", count)))
	}
	if d := n.Drifted[w.Kind+" "+w.Name]; d.Pods > 0 {
		f := found(Missed, object, "%d of its pods have another proxy than new pods would: %s", d.Pods, api.ListedTexts(d.What, maxDrifts))
		if d.LeftOut {
			f = f.do("Correct that before you restart the workload: calls of new pods would not go through the proxy.")
		} else {
			f = w.again(n.Name, f)
		}
		out = append(out, f)
	}
	if w.Failure != "" {
		f := found(PodsRefused, object, "its pods are not created: %q", api.Shorten(w.Failure, maxNote))
		if n.proxied(w) {
			f = f.do("Raise the ResourceQuota or change the LimitRange, if the message names one, or reduce the resources of the proxy in its pods: %s in the pod template.", api.AnnotationProxyResources)
		}
		out = append(out, f)
	}
	if f, ok := w.restart(n.Name, object); ok {
		out = append(out, f)
	}
	return append(out, n.subPaths(w, object)...)
}

// maxDrifts is the number of differences that are shown.
const maxDrifts = 5

// again returns the finding with the command that replaces the pods of the workload, if there is one.
func (w Workload) again(namespace string, f Finding) Finding {
	if !api.Restartable(w.Kind) {
		return f
	}
	return f.run([]string{w.Name, namespace}, "kubectl", "rollout", "restart", strings.ToLower(w.Kind)+"/"+w.Name, "-n", namespace)
}

// proxied reports whether a Service requests a proxy in the pods of the workload.
func (n Namespace) proxied(w Workload) bool {
	pod := &corev1.Pod{ObjectMeta: w.Template.ObjectMeta, Spec: w.Template.Spec}
	return slices.ContainsFunc(n.Services, func(svc *corev1.Service) bool {
		return api.Asks(svc) && api.Selects(svc, pod) && len(api.ProxyTargets(svc)) > 0
	})
}

// ours returns the annotations with our prefix.
func ours(annotations map[string]string) []string {
	return api.Place("").Unknown(annotations) // no annotation is known at this place
}

// restart returns why a workload with on-rotate: restart cannot be restarted.
func (w Workload) restart(namespace, object string) (Finding, bool) {
	if w.Template.Annotations[api.AnnotationOnRotate] != string(api.OnRotateRestart) {
		return Finding{}, false
	}
	cannot := func(why string) Finding {
		f := found(NoRestart, object, "%s: %s has no effect: %s", api.AnnotationOnRotate, api.OnRotateRestart, why)
		return f.annotation(api.AnnotationOnRotate).inTemplate()
	}
	switch {
	case w.Kind == api.PodKind:
		return cannot("no controller would recreate the pod"), true
	case !api.Restartable(w.Kind):
		return cannot(fmt.Sprintf("restarting a %s is not supported: only Deployments, StatefulSets and DaemonSets are restarted", w.Kind)), true
	case w.KeepsOldPods:
		return cannot("its update strategy leaves old pods running").do("Set spec.updateStrategy.type: RollingUpdate, and no partition."), true
	case w.Paused:
		return cannot("it is paused").run([]string{w.Name, namespace}, "kubectl", "rollout", "resume", strings.ToLower(w.Kind)+"/"+w.Name, "-n", namespace), true
	}
	return Finding{}, false
}

// subPaths returns a finding for each mount of a certificate or bundle by subPath.
func (n Namespace) subPaths(w Workload, object string) []Finding {
	spec := &w.Template.Spec
	var out []Finding
	look := func(field string, containers []corev1.Container) {
		for i, c := range containers {
			for j, m := range c.VolumeMounts {
				if m.SubPath == "" && m.SubPathExpr == "" {
					continue
				}
				v := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
				if v < 0 {
					continue
				}
				if what := n.holds(&spec.Volumes[v], w); what != "" {
					f := found(SubPath, object, "container %s mounts %s at %s by subPath", c.Name, what, m.MountPath)
					f.at = []any{"spec", field, i, "volumeMounts", j}
					out = append(out, f.inTemplate())
				}
			}
		}
	}
	look("initContainers", spec.InitContainers)
	look("containers", spec.Containers)
	return out
}

// holds returns the certificate or bundle in a volume: a Secret that a Service or the pod names,
// the CA bundle, or a pod certificate; "" if it has none.
func (n Namespace) holds(v *corev1.Volume, w Workload) string {
	secret := func(name string) string {
		named := name == w.Template.Annotations[api.AnnotationSecretName] || name == api.ConventionalSecretName
		if name == "" || !named && !slices.ContainsFunc(n.Services, func(s *corev1.Service) bool { asked, ok := api.Wants(s); return ok && asked == name }) {
			return ""
		}
		return "Secret " + name
	}
	bundle := func(name string) string {
		if name != api.BundleName {
			return ""
		}
		return "ConfigMap " + name
	}
	switch {
	case v.Secret != nil:
		return secret(v.Secret.SecretName)
	case v.ConfigMap != nil:
		return bundle(v.ConfigMap.Name)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			switch {
			case s.Secret != nil && secret(s.Secret.Name) != "":
				return secret(s.Secret.Name)
			case s.ConfigMap != nil && bundle(s.ConfigMap.Name) != "":
				return bundle(s.ConfigMap.Name)
			case s.PodCertificate != nil && podCertificates[s.PodCertificate.SignerName] != "":
				return podCertificates[s.PodCertificate.SignerName]
			}
		}
	}
	return ""
}

// podCertificates are the names for what a volume has of each signer.
var podCertificates = map[string]string{
	api.SignerName:       "the certificate of the pod's own key",
	api.ClientSignerName: "the identity of the pod",
}

// PodWorkload returns a pod without an owner as a workload.
func PodWorkload(pod *corev1.Pod) Workload {
	return Workload{Kind: api.PodKind, Name: pod.Name, Template: corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec,
	}}
}
