package signer

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
)

// The rotator reads in conditions which Secret they are about.
func TestConditionsNameTheirSecret(t *testing.T) {
	situation := Situation{Key: types.NamespacedName{Namespace: "shop", Name: "web-tls"}}
	for _, asks := range []map[string]string{nil, {api.AnnotationSecretName: "web-tls"}} { // the annotation went, or the namespace's label
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: asks}}
		svc.Status.Conditions = []metav1.Condition{*condition(true, reasonRetained, settled{Situation: situation, leaf: "0a"}.retainedMessage(svc))}
		svc.Annotations = nil
		got, ok := api.PartIn(svc)
		assert.True(t, ok)
		assert.Equal(t, "web-tls", got)
	}
}
