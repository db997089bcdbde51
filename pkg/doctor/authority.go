package doctor

import (
	"cmp"

	"github.com/servingcert/servingcert/pkg/api"
)

// State is what the signer and the rotator report about the CA and the targets that hold its bundle.
type State struct {
	CA api.CAStatus
	// TrustAccount is the ServiceAccount of the rotator that writes the bundle, NAMESPACE:NAME.
	TrustAccount string
	// Trust is nil if the rotator has written no status.
	Trust *api.TrustStatus
	// Unread is true if the rotator's status could not be read.
	Unread bool
}

// WebhookBundle returns the PEM bundle that the API server should trust for servingcert's webhook. While a
// certificate of an interim CA may be in use, which is until a day after the CA was restored, the bundle also
// contains the interim root.
func (s *State) WebhookBundle() string { return cmp.Or(s.CA.OwnBundle, s.CA.Bundle) }

// maxTargets is the number of targets that get a finding of their own.
const maxTargets = 10

func (s *State) evaluate() []Finding {
	var out []Finding
	if problem := s.CA.Problem; problem != (api.CAMessage{}) {
		out = append(out, found(CAProblem, "", "%s", problem))
	}
	for _, w := range s.CA.Warnings {
		out = append(out, found(CAWarning, "", "%s", w))
	}
	return append(out, s.trust()...)
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
