package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
)

// DistrustSituation is the input of Consequences: the state before all earlier roots are distrusted.
type DistrustSituation struct {
	Lost      string // the problem of the CA that is replaced; "" without one
	Services  []Service
	Consumers []Consumer
	// ConsumersErr is the error of reading Consumers.
	ConsumersErr error
	Trust        *Trust // nil: the rotator has not written it
}

// lostCA is the line about a CA that is replaced: its problem, and its Secret.
const lostCA = "The CA cannot be used (%s). If you have a backup of Secret %s, restore it instead: that breaks no client.\n"

// Consequences returns the lines about the servers and clients that fail until they have reloaded.
func Consequences(k DistrustSituation) string {
	var b strings.Builder
	if k.Lost != "" {
		fmt.Fprintf(&b, lostCA, k.Lost, api.CASecretName)
	}
	fmt.Fprintf(&b, "A new CA is created, and all earlier roots are distrusted at once. Connections fail until servers have the new certificates and clients have the new bundle:\n")
	b.WriteString(named("Services whose certificates are replaced", servers(k.Services)))
	workloads := breakingLines(breaking(k.Consumers, k.Services))
	b.WriteString(workloads)
	podKeys := unrefreshedLines(unrefreshed(k.Consumers))
	b.WriteString(podKeys)
	if slices.ContainsFunc(k.Services, func(s Service) bool { return s.Reason == api.ReasonRetained && !s.External }) {
		fmt.Fprintf(&b, "  certificates in namespaces without label %s=%s: they are replaced once the label is set again\n", api.LabelInject, api.InjectEnabled)
	}
	const every = "workloads that mount a certificate or the bundle"
	switch {
	case k.ConsumersErr != nil:
		fmt.Fprintf(&b, "  %s: unknown: %v\n", every, k.ConsumersErr)
	case workloads == "" && podKeys == "":
		b.WriteString(named(every, nil))
	}
	if k.Trust != nil {
		fmt.Fprintf(&b, "  targets that hold the bundle (ConfigMaps, webhooks, CRDs, APIServices): %d\n", k.Trust.Targets)
	}
	fmt.Fprintf(&b, "  clients that mount ClusterTrustBundle %s, which kubelets update within %s, and within %s where a pod mounts it by name\n",
		api.TrustBundleName, api.KubeletUpdates, api.KubeletUpdatesByName)
	b.WriteString("  clients that use their own copy of the bundle\n")
	b.WriteString("  programs and hosts that use a CertificateSigningRequest, until they request a new certificate\n")
	fmt.Fprintf(&b, "  Services with %s: %s whose certificates lead to one of these roots, until their issuer has another CA\n", api.AnnotationIssuer, api.IssuerExternal)
	return b.String()
}

// unrefreshed returns the workloads whose pods have their own keys, and whether the rotator may restart all
// those pods.
func unrefreshed(consumers []Consumer) map[workload]bool {
	found := map[workload]bool{}
	for _, c := range consumers {
		if slices.Contains(c.Keys, pods.PodKey) {
			others, known := found[c.workload()]
			found[c.workload()] = c.isRestarted() && (others || !known)
		}
	}
	return found
}

// unrefreshedLines returns the lines about these workloads; "" without any.
func unrefreshedLines(workloads map[workload]bool) string {
	var restarted, others []string
	for w, isRestarted := range workloads {
		if isRestarted {
			restarted = append(restarted, w.String())
		} else {
			others = append(others, w.String())
		}
	}
	if len(workloads) == 0 {
		return ""
	}
	text := "  Some pods have their own keys. A kubelet cannot be asked to replace their certificates now: only a new pod gets a new key and certificate.\n"
	if len(others) > 0 {
		text += named("workloads with such pods that fail until their pods are replaced (kubectl rollout restart)", others)
	}
	if len(restarted) > 0 {
		text += named("workloads with such pods that the rotator restarts ("+api.AnnotationOnRotate+": restart)", restarted)
	}
	return text
}

// Renewable reports whether the certificate of a Service can be renewed; see CannotRenew.
func (s Service) Renewable() bool { return !s.External && !s.NotOptedIn && !s.Refused() && !s.PodKeys }

// CannotRenew returns why the certificates of a Service cannot be renewed, and what to do.
func CannotRenew(s Service) string {
	if s.External && s.PodKeys {
		return fmt.Sprintf("another signer issues the certificates of the pods of Service %s (%s: %s), and a kubelet cannot be asked to refresh one: replace the pods, for example with %s", s, api.AnnotationIssuer,
			api.IssuerExternal, api.CommandText([]string{s.Namespace}, "kubectl", "rollout", "restart", "-n", s.Namespace))
	}
	if s.External {
		return fmt.Sprintf("another issuer writes Secret %s/%s of Service %s (%s: %s), and has to renew it", s.Namespace, s.Secret, s, api.AnnotationIssuer, api.IssuerExternal)
	}
	if s.NotOptedIn || s.Refused() {
		return optIn(s.Namespace)
	}
	return fmt.Sprintf("the pods of Service %s have their own keys (%s: %s), and a kubelet cannot be asked to refresh a certificate: replace the pods, for example with %s; each new pod gets a new key and certificate",
		s, api.AnnotationKeySource, api.KeySourcePod, api.CommandText([]string{s.Namespace}, "kubectl", "rollout", "restart", "-n", s.Namespace))
}

// servers returns the Services that have a leaf.
func servers(services []Service) []string {
	var names []string
	for _, s := range services {
		if s.Leaf != "" && !s.PodKeys {
			names = append(names, s.String())
		}
	}
	return names
}
