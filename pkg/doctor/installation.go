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

// namePrefix is what the names of the processes' objects begin with.
const namePrefix = "servingcert-"

// components are the processes of servingcert, by the end of their Deployments' names.
var components = []string{"signer", "trust", "rotator", "webhook"}

// leaders are those that work only while they hold a Lease.
var leaders = []string{"signer", "trust", "rotator"}

// Installation is what is known of servingcert in a cluster.
type Installation struct {
	Namespace string
	// Deployments and Leases are by name; one that is missing is not there. They are nil if
	// they could not be read.
	Deployments map[string]*appsv1.Deployment
	Leases      map[string]*coordinationv1.Lease
	// Pods are those of the Deployments.
	Pods []corev1.Pod
	// CABundles are those of the webhook's configuration, and Bundle is what the signer
	// has published for it ([State.WebhookBundle]), both PEM. Bundle is "" if that is not known.
	CABundles []string
	Bundle    string
	// Skew is how much later the API server's clock is than that of this machine. It is
	// known to a second.
	Skew time.Duration
	// DryRun is nil if it was not made.
	DryRun *DryRun
	// KubeletRequests are those for signer kubernetes.io/kubelet-serving; nil if the signer does
	// not approve them, or they could not be read.
	KubeletRequests []certificatesv1.CertificateSigningRequest
	// Kubelets are those that were dialled.
	Kubelets []Kubelet
}

// DryRun is what became of a pod that was created with dryRun=All in an opted-in namespace.
type DryRun struct {
	Namespace string
	// Created is the pod as the API server would have stored it; nil if it was refused.
	Created *corev1.Pod
	// Refusal is why it was refused.
	Refusal string
}

func (i *Installation) judge(now time.Time) []Finding {
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
		case wanted == 0:
			out = append(out, found(Available, object, "it is scaled to 0 replicas"))
		case ready == 0:
			out = append(out, found(Available, object, "ready replicas: 0 of %d%s", wanted, i.whyNot(d)))
		case stuck(d) != "":
			out = append(out, found(Available, object, "its rollout is stuck, ready replicas: %d of %d: %s%s", ready, wanted, stuck(d), i.whyNot(d)))
		case ready < wanted:
			out = append(out, found(Available, object, "ready replicas: %d of %d%s", ready, wanted, i.whyNot(d)).as(Warning))
		case d.Status.UnavailableReplicas > 0:
			out = append(out, found(Available, object, "unavailable replicas: %d, beside %d that are ready%s", d.Status.UnavailableReplicas, ready, i.whyNot(d)).as(Warning))
		}
	}
	return out
}

// stuck returns why the Deployment's rollout does not go on, or "".
func stuck(d *appsv1.Deployment) string {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// absent returns the finding that servingcert is not installed, nil if it is: a Deployment of it
// exists, or somebody holds one of its Leases.
func (i *Installation) absent(now time.Time) *Finding {
	if i.Deployments == nil || slices.ContainsFunc(components, func(c string) bool { return i.Deployments[namePrefix+c] != nil }) ||
		slices.ContainsFunc(Leading(i.Namespace, i.Leases, now), func(p Process) bool { return p.State == ProcessRuns }) {
		return nil
	}
	f := found(Installed, "Namespace "+i.Namespace, "servingcert is not installed: none of its Deployments exists").
		do("Apply the release's manifest. If servingcert is in another namespace, name it: --system-namespace. To examine a cluster before that: --pre.")
	return &f
}

// whyNot returns what the Deployment or its pods say about replicas that are not ready.
func (i *Installation) whyNot(d *appsv1.Deployment) string {
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

// leases reports the processes that hold no Lease.
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

// versionOf returns the tag of an image. Digests of different images differ, so that one
// without a tag is only known to be one.
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

// reached says whether the pod of the dry run was injected.
func (i *Installation) reached() []Finding {
	if i.DryRun == nil {
		return nil
	}
	object := "Namespace " + i.DryRun.Namespace
	switch pod := i.DryRun.Created; {
	case pod == nil && strings.Contains(i.DryRun.Refusal, "failed calling webhook"):
		return []Finding{found(WebhookReached, object, "%s", i.DryRun.Refusal)}
	case pod == nil:
		return []Finding{found(WebhookReached, object, "the pod was refused before the webhook was asked, or by somebody else: %s", i.DryRun.Refusal).as(Warning).
			do("See who refuses pods in this namespace, or try another: --dry-run-namespace.")}
	case pod.Labels[api.LabelInjected] != "true":
		return []Finding{found(WebhookReached, object, "the pod was not sent to the webhook, or the webhook could not be called and failurePolicy is Ignore: it was not injected")}
	}
	return nil
}

// caBundle compares what the API server trusts with what the signer has published.
func (i *Installation) caBundle() []Finding {
	if i.Bundle == "" {
		return nil
	}
	want, err := pki.ParseBundle([]byte(i.Bundle))
	if err != nil {
		return []Finding{found(CABundle, "ConfigMap "+i.Namespace+"/"+api.CAStatusName, "%s: %v", api.BundleKey, err)}
	}
	const object = "MutatingWebhookConfiguration servingcert"
	for _, text := range i.CABundles {
		have, err := pki.ParseBundle([]byte(text))
		switch {
		case text == "":
			return []Finding{found(CABundle, object, "it has no caBundle")}
		case err != nil:
			return []Finding{found(CABundle, object, "its caBundle: %v", err)}
		case have.Hash() != want.Hash():
			return []Finding{found(CABundle, object, "its caBundle is not the published bundle; certificates in it: %d, and published: %d", len(have.Certificates()), len(want.Certificates()))}
		}
	}
	return nil
}

// mostSkew is how much clocks may differ. Dates in HTTP are in whole seconds.
const mostSkew = 5 * time.Second

func (i *Installation) clock() []Finding {
	skew := i.Skew.Abs().Truncate(time.Second)
	if skew <= mostSkew {
		return nil
	}
	direction := "behind"
	if i.Skew < 0 {
		direction = "ahead of"
	}
	return []Finding{found(Clock, "", "the clock of this machine is %s %s that of the API server", skew, direction)}
}
