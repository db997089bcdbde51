package signer

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// externalCondition returns the Ready condition of a Service whose Secret another issuer writes.
func (s applied) externalCondition(svc *corev1.Service) *state.Condition {
	kept := s.kept(svc)
	said := state.Ready{Secret: s.Key.Name, Leaf: s.leaf, External: true}.WithKept(kept.Names)
	if s.problem.Reason != "" {
		return condition(false, s.problem.Reason, s.problem.Message+keptText(kept), said)
	}
	e := s.External
	said.Chain, said.Unverified = e.Paths, e.Unverified
	// X.509 names may have control characters.
	text := api.Escape(fmt.Sprintf("of another issuer (%q), for %s, until %s; %s", e.Issuer, describeNames(e.Leaf.DNSNames, e.Leaf.IPs), e.Leaf.NotAfter.Format(time.RFC3339), e.text()))
	if wrong := e.wrongFiles(svc); wrong != "" {
		return condition(false, reasonKeyMissing, s.ofSecret(text+"; annotation "+api.AnnotationFormats+" requests "+wrong, kept, s.leaf), said)
	}
	if missing := e.uncovered(svc, s.Limits); missing != "" {
		return condition(false, reasonNamesMissing, s.ofSecret(text+"; "+missing, kept, s.leaf), said)
	}
	if !s.Now.Before(e.RenewBy()) {
		return condition(true, reasonOverdue, s.ofSecret(text+"; its issuer should have renewed it by "+e.RenewBy().Format(time.RFC3339), kept, s.leaf), said)
	}
	return condition(true, reasonExternal, s.ofSecret(text, kept, s.leaf), said)
}

// text returns what verifies the certificate, or why nothing does.
func (v verdict) text() string {
	if v.Cause == "" {
		return string(v.Trust)
	}
	return string(v.Trust) + ": " + v.Cause
}

// wrongFiles returns which files of the Service's formats the Secret does not have, or has for another
// certificate, or "". The webhook mounts them: a pod does not start without them, or serves that certificate.
func (e *External) wrongFiles(svc *corev1.Service) string {
	wanted, _ := api.FormatsOf(svc)
	files := wanted.Files()
	missing := slices.DeleteFunc(slices.Clone(files), func(key string) bool {
		return slices.Contains(e.Other, key) || len(e.Other) > maxOther // not all are remembered
	})
	outdated := slices.DeleteFunc(files, func(key string) bool { return !slices.Contains(e.Outdated, key) })
	switch {
	case len(missing) > 0:
		return "data under " + strings.Join(missing, ", ") + ", which its issuer does not write"
	case len(outdated) > 0:
		return strings.Join(outdated, ", ") + ", which its issuer does not write, and which holds another certificate: delete it from the Secret and the annotation, or have its issuer write it"
	}
	return ""
}

// uncovered returns which names that clients use are not in the certificate, or "" (api.MissingNames).
func (e *External) uncovered(svc *corev1.Service, limits api.Limits) string {
	missing, listed := api.MissingNames(svc, limits.ClusterDomain, &x509.Certificate{DNSNames: e.Leaf.DNSNames})
	switch {
	case len(missing) == 0:
		return ""
	case listed:
		return "it is not for " + describeNames(missing, nil) + ", which annotation " + api.AnnotationExtraDNSNames + " lists"
	}
	return fmt.Sprintf("it is for none of the Service's names, such as %s: have its issuer add one, or list the names that clients use in annotation %s", missing[0], api.AnnotationExtraDNSNames)
}
