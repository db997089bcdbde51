package admission

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/api"
)

// A pod whose key its kubelet cannot make is refused: without the files it would serve
// plaintext, or not start.
func TestAPodIsRefusedWhereKubeletsMakeNoKeys(t *testing.T) {
	svc := webService.DeepCopy()
	svc.Annotations[api.AnnotationKeySource] = "pod"
	w := &world{cached: knows(svc), noPodKeys: true}
	h, _ := w.handler(t, logr.Discard())
	_, _, resp := ask(t, h, reviewOf(t, plainPod()))
	require.False(t, resp.Allowed)
	assert.Equal(t, `Service "web" has servingcert.dev/key-source: pod, and this cluster does not serve PodCertificateRequests: turn on feature gate PodCertificateRequest and API certificates.k8s.io/v1beta1 (Kubernetes 1.36), or set servingcert.dev/key-source: secret`, resp.Result.Message)
	assert.Empty(t, resp.Patch)

	w.noPodKeys = false
	_, _, resp = ask(t, h, reviewOf(t, plainPod()))
	require.True(t, resp.Allowed)
	assert.Contains(t, string(resp.Patch), `"podCertificate":{"signerName":"servingcert.dev/serving"`)
}

// What the API server serves is asked when a review needs it, and not for each.
func TestWhatIsServedIsAskedAgain(t *testing.T) {
	now, asked := time.Unix(0, 0), 0
	version, err := "", errors.New("away")
	p := &podKeys{clock: func() time.Time { return now }, ask: func(context.Context) (string, error) { asked++; return version, err }}
	serves := func() bool {
		t.Helper()
		served, err := p.serves(t.Context())
		require.NoError(t, err)
		return served
	}
	_, failed := p.serves(t.Context())
	require.EqualError(t, failed, "find out whether kubelets make keys: away")
	err = nil
	assert.False(t, serves())
	version = "certificates.k8s.io/v1"
	assert.False(t, serves(), "it was asked just now")
	now = now.Add(notServedFor)
	assert.True(t, serves())
	now = now.Add(servedFor - 1)
	assert.True(t, serves())
	assert.Equal(t, 3, asked)
	version, now = "", now.Add(1)
	assert.False(t, serves())
}
