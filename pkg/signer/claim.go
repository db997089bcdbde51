package signer

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// claim finds out who has a part in the Secret and what they want together. If
// nobody asks for it validly, those whose it was go on as before: nothing that
// is in use is taken away.
func claim(s Situation) Decision {
	var d Decision
	asking := slices.DeleteFunc(slices.Clone(s.Asking), func(svc *corev1.Service) bool { return !s.optedIn(svc) })
	wanted, members, ok := api.Merge(asking, s.Limits)
	for _, m := range members {
		if m.Err != nil {
			d.Refused = append(d.Refused, m)
		} else {
			d.Members = append(d.Members, m.Service)
		}
	}
	if ok {
		stay := s.remembered(refusedOwners(s, d.Refused))
		d.Asked = wanted.WithRetained(stay, s.Limits)
		if slices.ContainsFunc(stay, combinedMistaken) && s.Secret.holdsCombined() {
			d.Asked.Combined = true
		}
		if keepsRSA4096(s, stay) {
			d.Asked.Params.KeyAlgorithm = s.Secret.Leaf.KeyAlgorithm
		}
		d.owners = ownerReferences(s.Secret, slices.SortedFunc(slices.Values(slices.Concat(d.Members, stay)), api.OlderFirst))
		return d
	}
	if s.Secret == nil {
		return d // nothing to go on with
	}
	for _, svc := range slices.Concat(s.Owning, s.Asking) {
		if s.Secret.OwnedBy(svc.UID) && s.mayKeep(svc, s.Key.Name) {
			d.Members = append(d.Members, svc)
		}
	}
	d.Retained = true
	d.Asked = retainedWanted(s, d.Members)
	d.owners = s.Secret.OwnerReferences
	return d
}

// refusedOwners are the Services that have a part in the Secret and ask for what
// is not allowed now. A mistake in an annotation does not cost them what they had.
func refusedOwners(s Situation, refused []api.Member) []*corev1.Service {
	var owners []*corev1.Service
	for _, m := range refused {
		if s.Secret != nil && s.Secret.OwnedBy(m.Service.UID) {
			owners = append(owners, m.Service)
		}
	}
	return owners
}

// remembered returns the Services with the extra names that they have in the certificate, where
// there was no room to remember what they ask for. Only those count that each may ask for.
func (s Situation) remembered(services []*corev1.Service) []*corev1.Service {
	services = slices.Clone(services)
	for i, svc := range services {
		if _, known := svc.Annotations[api.AnnotationExtraDNSNames]; known || !api.IsReduced(svc) || s.Secret == nil {
			continue
		}
		restored := *svc
		restored.Annotations = maps.Clone(svc.Annotations)
		restored.Annotations[api.AnnotationExtraDNSNames] = strings.Join(s.Secret.Leaf.DNSNames, ",")
		services[i] = &restored
	}
	return services
}

// combinedMistaken reports whether the Service says about api.CombinedKey what is not
// allowed, so that nobody knows whether pods need it.
func combinedMistaken(svc *corev1.Service) bool {
	_, err := api.CombinedOf(svc)
	return err != nil
}

// retainedWanted is what a Secret that nobody asks for validly is renewed with:
// key, lifetime and files as they are, and the names that its Services may have. Never
// the names in the certificate: it could be a copy of another Service's. A remote
// CA gives lifetimes of its own, which would add up; it is asked for the default.
func retainedWanted(s Situation, members []*corev1.Service) api.Wanted {
	members = s.remembered(members)
	wanted := s.withoutOptIn(api.Retained(members, s.Limits), members)
	wanted.Combined = wanted.Combined || s.Secret.holdsCombined()
	leaf := s.Secret.Leaf
	if leaf.KeyAlgorithm != "" {
		wanted.Params.KeyAlgorithm = leaf.KeyAlgorithm
	}
	local := s.Authority != nil && s.Authority.Key != nil
	if d := leaf.NotAfter.Sub(leaf.NotBefore); d > 0 && local {
		wanted.Params.Duration = min(max(d, s.Limits.MinDuration), s.Limits.MaxDuration)
	}
	return wanted
}
