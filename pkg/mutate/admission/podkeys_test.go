package admission

import (
	"context"
	"errors"
	"net/http"
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
	assert.Equal(t, `Service "web" has servingcert.dev/key-source: pod, but this cluster does not serve PodCertificateRequests: Kubernetes 1.37 does by default, and 1.36 with feature gate PodCertificateRequest and API certificates.k8s.io/v1beta1; or set servingcert.dev/key-source: secret`, resp.Result.Message)
	assert.Empty(t, resp.Patch)

	w.noPodKeys = false
	_, _, resp = ask(t, h, reviewOf(t, plainPod()))
	require.True(t, resp.Allowed)
	assert.Contains(t, string(resp.Patch), `"podCertificate":{"signerName":"servingcert.dev/serving"`)
}

// What is not known of kubelets holds up the pods alone whose keys they are to make.
func TestOnlyPodsWithKeysOfTheirOwnDependOnKubelets(t *testing.T) {
	svc := webService.DeepCopy()
	svc.Name, svc.Annotations = "keys", map[string]string{api.AnnotationKeySource: "pod"}
	svc.Spec.Selector = map[string]string{"app": "keys"}
	w := &world{cached: knows(svc, webService), podKeysErr: errors.New("away")}
	h, _ := w.handler(t, logr.Discard())
	_, _, resp := ask(t, h, reviewOf(t, plainPod()))
	assert.Contains(t, string(resp.Patch), "web-tls")

	pod := plainPod()
	pod.Labels["app"] = "keys"
	status, body, _ := ask(t, h, reviewOf(t, pod))
	assert.Equal(t, http.StatusInternalServerError, status, "failurePolicy decides")
	assert.Contains(t, body, "away")
}

// clocked is a podKeys with a clock and an API server of the test.
type clocked struct {
	*podKeys
	now     time.Time
	asked   int
	version string
	err     error
}

func newClocked() *clocked {
	c := &clocked{now: time.Unix(0, 0)}
	c.podKeys = newPodKeys(func(context.Context) (string, error) { c.asked++; return c.version, c.err },
		func() time.Time { return c.now }, logr.Discard())
	return c
}

// A review waits for the API server only if it has not answered for a minute.
func TestAReviewDoesNotAskWhetherKubeletsMakeKeys(t *testing.T) {
	c := newClocked()
	c.version = "certificates.k8s.io/v1"
	_, err := c.look(t.Context())
	require.NoError(t, err)
	require.True(t, c.answered())
	for c.now = c.now.Add(time.Second); c.now.Before(time.Unix(60, 0)); c.now = c.now.Add(time.Second) {
		served, err := c.serves(t.Context())
		require.NoError(t, err)
		require.True(t, served)
	}
	assert.Equal(t, 1, c.asked, "the reviews asked nothing")

	c.now, c.version = time.Unix(61, 0), ""
	for range 2 {
		served, err := c.serves(t.Context())
		require.NoError(t, err)
		assert.False(t, served, "the gate was turned off meanwhile")
	}
	assert.Equal(t, 2, c.asked, "the answer to one review counts for the next")
}

// While the API server is away, the last answer counts for a minute. After that a review
// fails, and failurePolicy decides: the pod is neither refused for a reason that may be
// wrong, nor injected with a source that may be emptied.
func TestWithoutAnAnswerNothingIsDecided(t *testing.T) {
	c := newClocked()
	c.err = errors.New("away")
	_, err := c.serves(t.Context())
	require.EqualError(t, err, "find out whether kubelets make keys: away")
	assert.False(t, c.answered())

	c.version, c.err = "certificates.k8s.io/v1", nil
	_, err = c.look(t.Context())
	require.NoError(t, err)
	c.err = errors.New("away again")
	c.now = c.now.Add(believed)
	_, err = c.look(t.Context())
	require.Error(t, err)
	served, err := c.serves(t.Context())
	require.NoError(t, err)
	assert.True(t, served, "the last answer")
	c.now = c.now.Add(1)
	_, err = c.serves(t.Context())
	require.EqualError(t, err, "find out whether kubelets make keys: away again")
	assert.True(t, c.answered())
}

// It is asked beside the reviews, from the start.
func TestTheAPIServerIsAskedBesideTheReviews(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	asked := make(chan struct{})
	p := newPodKeys(func(context.Context) (string, error) {
		asked <- struct{}{}
		return "", errors.New("away")
	}, func() time.Time { return time.Unix(0, 0) }, logr.Discard())
	ended := make(chan error)
	go func() { ended <- p.follow(ctx) }()
	<-asked
	<-asked // again, as it did not answer
	stop()
	require.NoError(t, <-ended)
}
