package signer

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

func TestASecretThatIsDeletedInALoopIsIssuedAFewTimes(t *testing.T) {
	d, ns := newDeployment(t), newNamespace(t)
	r := startProcess(t, d, "--secret-issue-burst=3", "--secret-issue-interval=1h")
	makeService(t, ns, "web")
	var seen []string
	for range 3 {
		seen = append(seen, r.waitGood(t, ns, "web", "web-tls", seen...).fingerprint())
		require.NoError(t, admin.CoreV1().Secrets(ns).Delete(t.Context(), "web-tls", metav1.DeleteOptions{}))
	}
	c := waitReady(t, ns, "web", metav1.ConditionFalse, "RateLimited")
	assert.Contains(t, c.Message, "the limit for one Secret is reached (3 at once, then one every 1h0m0s); the next one for this Secret is issued at ")

	// Whatever it is told, the signer says the same and issues nothing.
	annotate(t, ns, "web", map[string]any{api.AnnotationKeyAlgorithm: "ED25519"})
	makeService(t, ns, "api")
	other := r.waitGood(t, ns, "api", "api-tls").fingerprint()
	assert.Equal(t, c, waitReady(t, ns, "web", metav1.ConditionFalse, "RateLimited"))
	issued, _ := r.metric(`servingcert_certificates_issued_total{reason="SecretMissing"}`)
	assert.Equal(t, "2", issued)

	// The limit is that of one name.
	annotate(t, ns, "web", map[string]any{api.AnnotationSecretName: "another-tls"})
	r.waitGood(t, ns, "web", "another-tls", append(seen, other)...)
}

func TestACertificateThatWorksWaitsSilently(t *testing.T) {
	d, ns := newDeployment(t), newNamespace(t)
	r := startProcess(t, d, "--namespace-reissue-burst=1", "--namespace-reissue-interval=1h")
	makeService(t, ns, "web")
	makeService(t, ns, "api")
	web := r.waitGood(t, ns, "web", "web-tls").fingerprint()
	r.waitGood(t, ns, "api", "api-tls")
	before := waitReady(t, ns, "api", metav1.ConditionTrue, "Issued")
	annotate(t, ns, "web", map[string]any{api.AnnotationKeyAlgorithm: "ED25519"})
	r.waitGood(t, ns, "web", "web-tls", web)

	annotate(t, ns, "api", map[string]any{api.AnnotationKeyAlgorithm: "ED25519"})
	makeService(t, ns, "later")
	r.waitGood(t, ns, "later", "later-tls") // a first issue does not wait
	assert.Equal(t, before, waitReady(t, ns, "api", metav1.ConditionTrue, "Issued"))
	annotate(t, ns, "api", map[string]any{api.AnnotationDuration: "abc"})
	waitReady(t, ns, "api", metav1.ConditionFalse, "InvalidAnnotation")
	annotate(t, ns, "api", map[string]any{api.AnnotationDuration: nil})
	c := waitReady(t, ns, "api", metav1.ConditionFalse, "RateLimited")
	assert.Contains(t, c.Message, "the limit for one namespace is reached (1 at once, then one every 1h0m0s)")
}
