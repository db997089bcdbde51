package choose

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// preference is one comparison of two Services that select the same pod and request
// different Secrets.
type preference struct {
	// compare returns a negative number if a is preferred to b, a positive number if b
	// is preferred to a, and 0 if this comparison does not decide.
	compare func(a, b *corev1.Service) int
	// because describes the preferred Service; %s is the name of the other.
	because string
}

// preferences are the comparisons in order: the first that decides counts. Creation times
// are in seconds, so the Services of one chart often have the same age. Then the pod should
// get the certificate with the name that most of its clients use.
var preferences = []preference{
	{api.Older, "is older than %s"},
	{unless(api.AdminOnly), "has a port for clients, unlike %s"},
	{unless(api.IsHeadless), "is not headless, unlike %s"},
	{func(a, b *corev1.Service) int { return cmp.Compare(a.Name, b.Name) }, "is as old as %s and comes first by name"},
}

// unless prefers Services without the property.
func unless(property func(*corev1.Service) bool) func(a, b *corev1.Service) int {
	rank := func(s *corev1.Service) int {
		if property(s) {
			return 1
		}
		return 0
	}
	return func(a, b *corev1.Service) int { return cmp.Compare(rank(a), rank(b)) }
}

// preferred orders Services by the preferences.
func preferred(a, b *corev1.Service) int {
	for _, p := range preferences {
		if c := p.compare(a, b); c != 0 {
			return c
		}
	}
	return 0
}

// whyPreferred returns why a is preferred to b.
func whyPreferred(a, b service) string {
	i := slices.IndexFunc(preferences, func(p preference) bool { return p.compare(a.Service, b.Service) != 0 })
	if i < 0 {
		i = len(preferences) - 1 // the same Service twice
	}
	return fmt.Sprintf("Service %s (%s) "+preferences[i].because, a.Name, a.from, b.Name)
}
