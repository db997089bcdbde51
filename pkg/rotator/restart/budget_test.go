package restart

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// webExcept selects app=web, by a list of values that an expression excludes.
func webExcept(excluded ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{
		MatchLabels:      map[string]string{"app": "web"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpNotIn, Values: excluded}},
	}
}

// A selector is parsed once, and nothing is kept of one that is larger than allowed.
func TestBudgetOf(t *testing.T) {
	many := func(n int) *metav1.LabelSelector {
		s := webExcept("x")
		for i := range n - 2 {
			s.MatchLabels[fmt.Sprint("l", i)] = "x"
		}
		return s
	}
	rest := maxSelector - len("app=web,tier:") // for values, each with a separator
	for name, tt := range map[string]struct {
		selector        *metav1.LabelSelector
		tooLarge, match bool
	}{
		"ordinary":                       {webExcept("x"), false, true},
		"none":                           {nil, false, false},
		"empty":                          {&metav1.LabelSelector{}, false, true},
		"invalid":                        {&metav1.LabelSelector{MatchLabels: map[string]string{"/": "x"}}, false, false},
		"as many requirements as may be": {many(maxRequirements), false, false},
		"one more":                       {many(maxRequirements + 1), true, false},
		"as many bytes as may be":        {webExcept(strings.Split(strings.Repeat("x,", rest/2-1)+strings.Repeat("x", rest%2+1), ",")...), false, true},
		"a byte more":                    {webExcept(strings.Split(strings.Repeat("x,", rest/2-1)+strings.Repeat("x", rest%2+2), ",")...), true, false},
		"empty values":                   {webExcept(make([]string, 1<<20)...), true, false},
		"a large label":                  {&metav1.LabelSelector{MatchLabels: map[string]string{strings.Repeat("x", 1<<20): ""}}, true, false},
		"a large key":                    {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: strings.Repeat("x", 1<<20), Operator: metav1.LabelSelectorOpExists}}}, true, false},
	} {
		b := BudgetOf(&policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{Selector: tt.selector}})
		if assert.Equal(t, tt.tooLarge, b.TooLarge(), name) && !tt.tooLarge {
			assert.Equal(t, tt.match, b.selector.Matches(labels.Set{"app": "web"}), name)
		}
	}
}
