package mutate

import (
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
)

// Known is what is known of a namespace when a pod is created in it.
type Known struct {
	// Services of the namespace, in any order. Those that ask for no Secret
	// may be left out.
	Services []*corev1.Service
	// ConventionalSecret: a Secret api.ConventionalSecretName of type
	// kubernetes.io/tls exists.
	ConventionalSecret bool
}

// By says what chose the Secret.
type By string

// What can choose the Secret, in the order in which they are asked.
const (
	ByPod        By = "pod"        // the pod names it
	ByService    By = "service"    // an annotated Service selects the pod
	ByConvention By = "convention" // it has the conventional name
	ByNothing    By = ""           // the pod gets none
)

// Choice is the Secret of a pod, and what follows from where it comes from.
type Choice struct {
	By     By
	Secret string // empty for ByNothing
	// Service is the annotated Service that asks for the Secret and selects
	// the pod, the oldest of several; empty if none does.
	Service string
	// Issued: an annotated Service of the namespace asks for the Secret, so
	// that the signer writes it and the bundle verifies it.
	Issued bool
	// Ports are the targetPorts behind which the Services that select the pod
	// offer TLS, as far as can be told.
	Ports []intstr.IntOrString
	// Notes on the Services, such as one that the signer refuses.
	Notes []Note
}

// FromServices reports whether a Service that was seen explains the choice: no
// Service that was not seen yet could change it, being younger.
func (c Choice) FromServices() bool {
	return c.By == ByService || c.By == ByPod && c.Issued
}

// Choose returns the Secret of the pod: the one that it names; else the one
// that an annotated Service asks for that selects it, the oldest if there are
// several; else the conventional one, if the pod declares a port and is no
// Job's and no Service issues that Secret for its own pods.
func Choose(pod *corev1.Pod, request api.PodRequest, known Known) Choice {
	asking := askingServices(known.Services)
	selecting := slices.DeleteFunc(slices.Clone(asking), func(s *corev1.Service) bool { return !selects(s, pod) })
	c := Choice{}
	switch {
	case request.SecretName != "":
		c.By, c.Secret = ByPod, request.SecretName
	case len(selecting) > 0:
		c.By, c.Secret = ByService, secretOf(selecting[0])
	case known.ConventionalSecret && !issued(asking, api.ConventionalSecretName) && api.DeclaresPort(pod) && !api.OwnedByJob(pod):
		c.By, c.Secret = ByConvention, api.ConventionalSecretName
	}
	c.Notes = serviceNotes(pod, known.Services, selecting, c)
	if c.By == ByNothing {
		return c
	}
	c.Issued = issued(asking, c.Secret)
	for _, s := range selecting {
		if secretOf(s) != c.Secret {
			continue
		}
		if c.Service == "" {
			c.Service = s.Name
		}
		c.Ports = append(c.Ports, api.TLSTargets(s)...)
	}
	return c
}

// askingServices returns the Services that ask for a Secret that can exist,
// oldest first.
func askingServices(services []*corev1.Service) []*corev1.Service {
	var asking []*corev1.Service
	for _, s := range services {
		name, ok := api.Wants(s)
		if !ok || len(validation.IsDNS1123Subdomain(name)) > 0 {
			continue
		}
		if name == api.ConventionalSecretName && len(s.Spec.Selector) == 0 {
			continue // refused: every pod of the namespace would get it
		}
		asking = append(asking, s)
	}
	slices.SortStableFunc(asking, api.OlderFirst)
	return asking
}

func secretOf(svc *corev1.Service) string {
	name, _ := api.Wants(svc)
	return name
}

func issued(asking []*corev1.Service, secret string) bool {
	return slices.ContainsFunc(asking, func(s *corev1.Service) bool { return secretOf(s) == secret })
}

// selects reports whether the Service's traffic goes to the pod. A Service
// without selector selects nothing, unlike an empty label selector.
func selects(svc *corev1.Service, pod *corev1.Pod) bool {
	return len(svc.Spec.Selector) > 0 && labels.SelectorFromValidatedSet(svc.Spec.Selector).Matches(labels.Set(pod.Labels))
}

// serviceNotes returns what the owner of the pod should know about the
// Services that decide over it.
func serviceNotes(pod *corev1.Pod, all, selecting []*corev1.Service, c Choice) []Note {
	var notes []Note
	if c.By == ByService {
		for _, s := range selecting {
			if secretOf(s) != c.Secret {
				notes = append(notes, Note{Reason: ReasonSeveralServices, Detail: "Service " + selecting[0].Name + " (Secret " + c.Secret + ") is older than " + s.Name + " (Secret " + secretOf(s) + ")"})
				break
			}
		}
	}
	for _, s := range all {
		name, asks := api.Wants(s)
		if !asks || !selects(s, pod) {
			continue
		}
		detail := refusal(s)
		switch {
		case len(validation.IsDNS1123Subdomain(name)) > 0:
			notes = append(notes, Note{Reason: ReasonImpossibleSecret, Detail: "Service " + s.Name + ": " + detail})
		case name == c.Secret && detail != "":
			notes = append(notes, Note{Reason: ReasonServiceRefused, Detail: "Service " + s.Name + ": " + detail})
		}
	}
	return notes
}

// refusal says why a signer does not issue for the Service, as far as the
// webhook can know, or nothing: its annotations may hold what no signer allows,
// and its condition is the word of the one that runs. Where that names a leaf
// there is a certificate, and only some names wait.
func refusal(svc *corev1.Service) string {
	if _, err := api.Parse(svc, widestLimits(svc)); err != nil {
		return err.Error()
	}
	_, hasLeaf := api.LeafOf(svc)
	if cond := api.Condition(svc, api.ConditionReady); cond != nil && cond.Status == metav1.ConditionFalse && !hasLeaf {
		return cond.Reason + ": " + cond.Message
	}
	return ""
}

// widestLimits allow the Service whatever some signer might: its own extra
// names, any duration, ClusterIPs. What fails under them fails everywhere.
func widestLimits(svc *corev1.Service) api.Limits {
	limits := api.DefaultLimits()
	limits.MinDuration, limits.MaxDuration, limits.PermitClusterIPs = time.Second, math.MaxInt64, true
	for name := range strings.SplitSeq(svc.Annotations[api.AnnotationExtraDNSNames], ",") {
		suffix := strings.TrimPrefix(strings.TrimSpace(name), "*.")
		limits.PermitDNSSuffixes = append(limits.PermitDNSSuffixes, api.SuffixRule{NamespaceGlob: "*", Suffix: suffix})
	}
	return limits
}
