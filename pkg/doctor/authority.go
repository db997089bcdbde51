package doctor

import (
	"cmp"
	"time"

	"github.com/servingcert/servingcert/pkg/api"
)

// State is what the signer and the rotator report about a CA and the targets that hold its bundle.
type State struct {
	CA api.CAStatus
	// Clients: the CA signs the certificates of clients. Its only target is ClusterTrustBundle
	// api.ClientBundleName, about which Trust is then.
	Clients bool
	// TrustAccount is the ServiceAccount of the rotator that writes the bundle, NAMESPACE:NAME.
	TrustAccount string
	// Trust is nil if the rotator has written no status, or the ClusterTrustBundle does not exist.
	Trust *api.TrustStatus
	// Unread is true if Trust could not be read.
	Unread bool
}

// WebhookBundle returns the PEM bundle that the API server should trust for servingcert's webhook. While a
// certificate of an interim CA may be in use, which is until a day after the CA was restored, the bundle also
// contains the interim root.
func (s *State) WebhookBundle() string { return cmp.Or(s.CA.OwnBundle, s.CA.Bundle) }

// maxTargets is the number of targets that get a finding of their own.
const maxTargets = 10

// object names the CA for clients in findings; it is empty for the other one.
func (s *State) object() string {
	if s.Clients {
		return "Secret " + api.ClientCASecretName
	}
	return ""
}

func (s *State) evaluate(now time.Time) []Finding {
	var out []Finding
	if problem := s.CA.Problem; problem != (api.CAMessage{}) {
		out = append(out, found(CAProblem, s.object(), "%s", problem))
	}
	for _, w := range s.CA.Warnings {
		out = append(out, found(CAWarning, s.object(), "%s", w))
	}
	if waits := now.Sub(s.CA.Since); s.CA.Phase == api.PhaseWait && waits > maxWait {
		out = append(out, found(CAWarning, s.object(), "generation %d has waited for %s: %s", s.CA.NextGeneration, waits.Truncate(time.Minute), s.CA.WaitingFor).
			do("Do what the message says. If it does not change, see the log: kubectl logs -n servingcert-system deployment/servingcert-signer."))
	}
	if s.Clients {
		return append(out, s.clientRoots()...)
	}
	return append(out, s.trust()...)
}

// maxWait is how long a generation may wait before that is a finding, as in alert ServingcertSuccessionStuck.
const maxWait = time.Hour

// clientRoots returns the finding about a ClusterTrustBundle without the roots that the CA has published.
func (s *State) clientRoots() []Finding {
	what := ""
	switch {
	case s.Unread:
	case s.Trust == nil:
		what = "it does not exist: new pods whose proxy verifies clients do not start"
	case s.Trust.BundleHash != s.CA.BundleHash:
		what = "it does not have the roots that the CA has published: servers may refuse identities"
	}
	if what == "" {
		return nil
	}
	return []Finding{found(TrustTargets, "ClusterTrustBundle "+api.ClientBundleName, "%s", what).
		do("The signer writes it. See why it does not: kubectl logs -n servingcert-system deployment/servingcert-signer.")}
}

// missingRole returns the finding about an annotated webhook configuration that no role lets the
// rotator write, with the commands that create one; false for any other target.
func (s *State) missingRole(t api.TrustTarget) (Finding, bool) {
	resource := map[string]string{
		"MutatingWebhookConfiguration": "mutatingwebhookconfigurations", "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
	}[t.Kind]
	if resource == "" || t.Reason != "Forbidden" || t.Name == api.TrustAllOfKind {
		return Finding{}, false
	}
	f := found(WebhookRole, t.Kind+" "+t.Name, "%s", t.Message)
	role := "servingcert-trust-" + t.Name
	names := []string{t.Name}
	return f.do("Apply the ClusterRole: %s && %s",
		api.CommandText(names, "kubectl", "create", "clusterrole", role, "--verb=patch", "--resource="+resource+".admissionregistration.k8s.io", "--resource-name="+t.Name),
		api.CommandText(names, "kubectl", "create", "clusterrolebinding", role, "--clusterrole="+role, "--serviceaccount="+s.TrustAccount)), true
}

// trust returns the findings about targets that do not hold the bundle.
func (s *State) trust() []Finding {
	switch {
	case s.Unread:
		return nil
	case s.Trust == nil:
		return []Finding{found(TrustTargets, "", "ConfigMap %s does not exist: the rotator has not run yet", api.TrustStatusName)}
	case s.Trust.Problem != "":
		return []Finding{found(TrustTargets, "", "%s", s.Trust.Problem)}
	case s.Trust.BundleHash != s.CA.BundleHash:
		return []Finding{found(TrustTargets, "", "the rotator's status is about another bundle than the published one")}
	}
	var out []Finding
	for i, t := range s.Trust.NotHolding {
		if i == maxTargets {
			break
		}
		if f, ok := s.missingRole(t); ok {
			out = append(out, f)
			continue
		}
		out = append(out, found(TrustTargets, "", "%s", t))
	}
	if n := s.Trust.Pending + s.Trust.Refusing - len(out); n > 0 {
		out = append(out, found(TrustTargets, "", "%d more targets do not hold the bundle", n))
	}
	return out
}
