package signer

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

// The rotator reads in conditions which Secret they are about.
func TestConditionsNameTheirSecret(t *testing.T) {
	situation := Situation{Key: types.NamespacedName{Namespace: "shop", Name: "web-tls"}}
	for _, asks := range []map[string]string{nil, {api.AnnotationSecretName: "web-tls"}} { // the annotation went, or the namespace's label
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: asks}}
		svc.Status.Conditions = applied{Situation: situation, d: Decision{Retained: true}, leaf: "0a"}.memberCondition(svc).Both()
		svc.Annotations = nil
		got, ok := state.PartIn(svc)
		assert.True(t, ok)
		assert.Equal(t, "web-tls", got)
	}
}
