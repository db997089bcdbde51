package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
)

// TestWhichPodsAQuotaCounts: pods of servingcert have requests and no deadline.
func TestWhichPodsAQuotaCounts(t *testing.T) {
	const class = corev1.ResourceQuotaScopePriorityClass
	scopes := func(scopes ...corev1.ResourceQuotaScope) corev1.ResourceQuotaSpec {
		return corev1.ResourceQuotaSpec{Scopes: scopes}
	}
	selects := func(scope corev1.ResourceQuotaScope, is corev1.ScopeSelectorOperator, values ...string) corev1.ResourceQuotaSpec {
		return corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{
			MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
				{ScopeName: corev1.ResourceQuotaScopeNotTerminating, Operator: corev1.ScopeSelectorOpExists},
				{ScopeName: scope, Operator: is, Values: values},
			},
		}}
	}
	for name, c := range map[string]struct {
		quota                 corev1.ResourceQuotaSpec
		withClass, withoutOne bool
	}{
		"all":                       {scopes(), true, true},
		"NotTerminating":            {scopes(corev1.ResourceQuotaScopeNotTerminating), true, true},
		"Terminating":               {scopes(corev1.ResourceQuotaScopeTerminating), false, false},
		"BestEffort":                {scopes(corev1.ResourceQuotaScopeBestEffort), false, false},
		"PriorityClass":             {scopes(class), true, false},
		"In, listed":                {selects(class, corev1.ScopeSelectorOpIn, "high"), true, false},
		"In, another":               {selects(class, corev1.ScopeSelectorOpIn, "low"), false, false},
		"NotIn, listed":             {selects(class, corev1.ScopeSelectorOpNotIn, "high"), false, true},
		"NotIn, another":            {selects(class, corev1.ScopeSelectorOpNotIn, "low"), true, true},
		"Exists":                    {selects(class, corev1.ScopeSelectorOpExists), true, false},
		"DoesNotExist":              {selects(class, corev1.ScopeSelectorOpDoesNotExist), false, true},
		"selects Terminating":       {selects(corev1.ResourceQuotaScopeTerminating, corev1.ScopeSelectorOpExists), false, false},
		"selects BestEffort":        {selects(corev1.ResourceQuotaScopeBestEffort, corev1.ScopeSelectorOpExists), false, false},
		"selects NotBestEffort":     {selects(corev1.ResourceQuotaScopeNotBestEffort, corev1.ScopeSelectorOpExists), true, true},
		"CrossNamespacePodAffinity": {scopes(corev1.ResourceQuotaScopeCrossNamespacePodAffinity), false, false},
	} {
		q := &corev1.ResourceQuota{Spec: c.quota}
		assert.Equal(t, c.withClass, counts(q, corev1.PodSpec{PriorityClassName: "high"}), name)
		assert.Equal(t, c.withoutOne, counts(q, corev1.PodSpec{}), name)
	}
}
