package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
)

// namePrefix begins the names of the components' objects.
const namePrefix = "servingcert-"

// components are the suffixes of the Deployments' names.
var components = []string{"signer", "trust", "rotator", "webhook"}

// leaders are the components that work only while they hold a Lease.
var leaders = []string{"signer", "trust", "rotator"}

// Installation is the state of servingcert's own objects in a cluster.
type Installation struct {
	Namespace string
	// Deployments and Leases are indexed by name; nil if they could not be read.
	Deployments map[string]*appsv1.Deployment
	Leases      map[string]*coordinationv1.Lease
	// Pods are the pods of the Deployments.
	Pods []corev1.Pod
	// CABundles are the caBundles of the webhook configuration, and Bundle is what the signer
	// has published for it ([State.WebhookBundle]), both PEM. Bundle is "" if it is unknown.
	CABundles []string
	Bundle    string
	// NoConfiguration is true if the webhook configuration does not exist.
	NoConfiguration bool
	// Skew is the API server's time minus this machine's, with a precision of a second.
	Skew time.Duration
	// DryRun is nil if it was not made.
	DryRun *DryRun
	// KubeletRequests are the requests to signer kubernetes.io/kubelet-serving; nil if the signer
	// does not approve them, or they could not be read.
	KubeletRequests []certificatesv1.CertificateSigningRequest
	// Kubelets are the answers of the kubelets that were dialled.
	Kubelets []Kubelet
}

// DryRun is the result of creating a pod with dryRun=All in an opted-in namespace.
type DryRun struct {
	Namespace string
	// Created is the pod as the API server would have stored it; nil if it was refused.
	Created *corev1.Pod
	// Refusal is the API server's error if it was refused.
	Refusal string
}

func (i *Installation) evaluate(now time.Time) []Finding {
	return slices.Concat(i.deployments(), i.leases(now), i.versions(), i.reached(), i.caBundle(), i.clock(), i.kubelets(now))
}

func (i *Installation) deployments() []Finding {
	if i.Deployments == nil {
		return nil
	}
	var out []Finding
	for _, c := range components {
		name := "servingcert-" + c
		object := "Deployment " + i.Namespace + "/" + name
		d := i.Deployments[name]
		if d == nil {
			out = append(out, found(Installed, object, "it does not exist"))
			continue
		}
		wanted := int32(1)
		if d.Spec.Replicas != nil {
			wanted = *d.Spec.Replicas
		}
		switch ready := d.Status.ReadyReplicas; {
		case d.DeletionTimestamp != nil:
			out = append(out, found(Available, object, "it is being deleted"))
		case wanted == 0:
			out = append(out, found(Available, object, "it is scaled to 0 replicas"))
		case ready == 0:
			out = append(out, found(Available, object, "ready replicas: 0 of %d%s", wanted, i.notReadyCause(d)))
		case stuck(d) != "":
			out = append(out, found(Available, object, "its rollout is stuck, ready replicas: %d of %d: %s%s", ready, wanted, stuck(d), i.notReadyCause(d)))
		case ready < wanted:
			out = append(out, found(Available, object, "ready replicas: %d of %d%s", ready, wanted, i.notReadyCause(d)).as(Warning))
		case d.Status.UnavailableReplicas > 0:
			out = append(out, found(Available, object, "unavailable replicas: %d, ready replicas: %d%s", d.Status.UnavailableReplicas, ready, i.notReadyCause(d)).as(Warning))
		}
	}
	return out
}

// stuck returns why the Deployment's rollout is not progressing, or "".
func stuck(d *appsv1.Deployment) string {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// absent returns the finding that servingcert is not installed. It returns nil if one of its Deployments
// exists or one of its Leases is held.
func (i *Installation) absent(now time.Time) *Finding {
	if i.Deployments == nil || slices.ContainsFunc(components, func(c string) bool { return i.Deployments[namePrefix+c] != nil }) ||
		slices.ContainsFunc(Leading(i.Namespace, i.Leases, now), func(p Process) bool { return p.State == ProcessRuns }) {
		return nil
	}
	f := found(Installed, "Namespace "+i.Namespace, "servingcert is not installed: none of its Deployments exists").
		do("Apply the release's manifest. If servingcert is in another namespace, name it: --system-namespace. To examine a cluster before the installation, use --pre.")
	return &f
}

// notReadyCause returns what the status of the pods or the Deployment says about replicas that are not ready.
func (i *Installation) notReadyCause(d *appsv1.Deployment) string {
	for _, p := range i.Pods {
		if !strings.HasPrefix(p.Name, d.Name+"-") {
			continue
		}
		for _, s := range p.Status.ContainerStatuses {
			if w := s.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" {
				return fmt.Sprintf(": container %s: %s: %s", s.Name, w.Reason, w.Message)
			}
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				return fmt.Sprintf(": pod %s: %s: %s", p.Name, c.Reason, c.Message)
			}
		}
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return ": " + c.Message
		}
	}
	return ""
}

// leases returns a finding for each component that does not hold its Lease.
func (i *Installation) leases(now time.Time) []Finding {
	if i.Leases == nil {
		return nil
	}
	var out []Finding
	for _, p := range Leading(i.Namespace, i.Leases, now) {
		if p.State == ProcessAway {
			out = append(out, found(Leases, p.Object, "%s", p.Why))
		}
	}
	return out
}

// versions returns a finding if the pods do not all run the same version.
func (i *Installation) versions() []Finding {
	seen := map[string][]string{}
	for _, p := range i.Pods {
		for _, c := range p.Spec.Containers {
			if slices.Contains(components, c.Name) {
				v := versionOf(c.Image)
				seen[v] = append(seen[v], p.Name)
			}
		}
	}
	if len(seen) < 2 {
		return nil
	}
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(seen)) {
		slices.Sort(seen[v])
		parts = append(parts, v+": "+strings.Join(seen[v], ", "))
	}
	return []Finding{found(Versions, "Namespace "+i.Namespace, "%s", strings.Join(parts, "; "))}
}

// versionOf returns the tag of an image, or "by digest". A digest is no version: it differs
// between the images of one release.
func versionOf(image string) string {
	image, digest, _ := strings.Cut(image, "@")
	i := strings.LastIndexByte(image, ':')
	switch {
	case i > strings.LastIndexByte(image, '/'):
		return image[i+1:]
	case digest != "":
		return "by digest"
	}
	return "latest"
}

// reached returns a finding if the pod of the dry run was not injected.
func (i *Installation) reached() []Finding {
	if i.DryRun == nil {
		return nil
	}
	object := "Namespace " + i.DryRun.Namespace
	switch pod := i.DryRun.Created; {
	case pod == nil && strings.Contains(i.DryRun.Refusal, "failed calling webhook"):
		return []Finding{found(WebhookReached, object, "%s", i.DryRun.Refusal)}
	case pod == nil:
		return []Finding{found(WebhookReached, object, "the pod was refused before the webhook was called, or by another admission plugin: %s", i.DryRun.Refusal).as(Warning).
			do("Find out what refuses pods in this namespace, or test in another: --dry-run-namespace.")}
	case pod.Labels[api.LabelInjected] != "true":
		return []Finding{found(WebhookReached, object, "the pod was not sent to the webhook, or the webhook could not be called and failurePolicy is Ignore: it was not injected")}
	}
	return nil
}

// caBundle compares the caBundle of the webhook configuration with the published bundle.
func (i *Installation) caBundle() []Finding {
	const object = "MutatingWebhookConfiguration servingcert"
	if i.NoConfiguration {
		return []Finding{found(CABundle, object, "it does not exist, so the API server calls no webhook, and no pod is injected").do("Apply the release's manifest again.")}
	}
	if i.Bundle == "" {
		return nil
	}
	want, err := pki.ParseBundle([]byte(i.Bundle))
	if err != nil {
		return []Finding{found(CABundle, "ConfigMap "+i.Namespace+"/"+api.CAStatusName, "%s: %v", api.BundleKey, err)}
	}
	for _, text := range i.CABundles {
		have, err := pki.ParseBundle([]byte(text))
		switch {
		case text == "":
			return []Finding{found(CABundle, object, "it has no caBundle")}
		case err != nil:
			return []Finding{found(CABundle, object, "its caBundle: %v", err)}
		case have.Hash() != want.Hash():
			return []Finding{found(CABundle, object, "its caBundle is not the published bundle (certificates: %d, published: %d)", len(have.Certificates()), len(want.Certificates()))}
		}
	}
	return nil
}

// maxSkew allows for dates in HTTP, which are in whole seconds.
const maxSkew = 5 * time.Second

func (i *Installation) clock() []Finding {
	skew := i.Skew.Abs().Truncate(time.Second)
	if skew <= maxSkew {
		return nil
	}
	direction := "behind"
	if i.Skew < 0 {
		direction = "ahead of"
	}
	return []Finding{found(Clock, "", "the clock of this machine is %s %s the API server's", skew, direction)}
}
