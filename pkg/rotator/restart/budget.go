package restart

import (
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/servingcert/servingcert/pkg/api"
)

// MaxBudgets is the largest number of PodDisruptionBudgets of a namespace that are read. In a namespace
// with more, nothing is restarted.
const MaxBudgets = 1000

// Limits of a selector, which is kept during a decision and compared with the labels of many pods, and of
// the labels of a template. The API server bounds none of them.
const (
	maxRequirements = 64
	maxSelector     = 4 << 10 // bytes of the keys and values, each with a separator
	maxLabels       = 8 << 10 // bytes of the same
)

// maxAgainst is the largest number of budgets that a message names.
const maxAgainst = 3

// Budget is what a restart depends on of a PodDisruptionBudget.
type Budget struct {
	name      string
	selector  labels.Selector // nil: TooLarge
	evaluated bool            // the counts are of the current specification

	allowed, healthy, expected, desired int32
}

// BudgetOf returns what is kept of a PodDisruptionBudget.
func BudgetOf(b *policyv1.PodDisruptionBudget) Budget {
	s := &b.Status
	return Budget{
		name: b.Name, selector: selectorOf(b.Spec.Selector), evaluated: s.ObservedGeneration >= b.Generation,
		allowed: s.DisruptionsAllowed, healthy: s.CurrentHealthy, expected: s.ExpectedPods, desired: s.DesiredHealthy,
	}
}

// TooLarge reports whether the selector exceeds its limits. It may select any pod, so the budget allows no
// restart in its namespace.
func (b Budget) TooLarge() bool { return b.selector == nil }

// against returns why the budget does not allow a restart of pods with these labels, or "".
func (b Budget) against(podLabels labels.Set) string {
	switch {
	case b.TooLarge():
		return fmt.Sprintf("%s has a selector that is too large (at most %d requirements, and %d bytes of keys and values)", b.name, maxRequirements, maxSelector)
	case !b.selector.Matches(podLabels):
		return ""
	case !b.evaluated:
		return b.name + " was not evaluated yet"
	case b.allowed < 1:
		return fmt.Sprintf("%s allows no disruption now (%d of %d pods healthy, %d needed)", b.name, b.healthy, b.expected, b.desired)
	}
	return ""
}

// budgetsAgainst returns the budgets that do not allow a restart, and why, or "". A rollout removes pods
// without regard to budgets, so they are checked before. All of them must allow it, as for an
// eviction.
func budgetsAgainst(budgets []Budget, podLabels labels.Set) string {
	var against []string
	for _, b := range budgets {
		if why := b.against(podLabels); why != "" {
			against = append(against, why)
		}
	}
	return api.ListedTexts(against, maxAgainst)
}

// selectorOf parses a selector. It returns nil for one that exceeds its limits, and labels.Nothing for an
// invalid one.
func selectorOf(s *metav1.LabelSelector) labels.Selector {
	if s != nil && !fits(s) {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

func fits(s *metav1.LabelSelector) bool {
	if len(s.MatchLabels)+len(s.MatchExpressions) > maxRequirements {
		return false
	}
	size := sizeOf(s.MatchLabels)
	for _, e := range s.MatchExpressions {
		size += len(e.Key) + 1
		for _, value := range e.Values {
			size += len(value) + 1
		}
	}
	return size <= maxSelector
}

func sizeOf(set map[string]string) int {
	size := 0
	for key, value := range set {
		size += len(key) + len(value) + 2
	}
	return size
}
