package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/servingcert/servingcert/deploy"
)

func TestPollAfter(t *testing.T) {
	for _, test := range []struct {
		name     string
		done, n  int
		since    time.Duration
		expected time.Duration
	}{
		{"nothing done yet", 0, 1000, time.Second, shortPoll},
		{"half done in ten seconds: ten more, so check after half of them", 500, 1000, 10 * time.Second, 5 * time.Second},
		{"too early for an estimate: check when twice the time has passed", 3, 10_000, 40 * time.Millisecond, 40 * time.Millisecond},
		{"close to the end", 999, 1000, time.Second, shortPoll},
		{"all done", 1000, 1000, time.Second, shortPoll},
	} {
		assert.Equal(t, test.expected, pollAfter(test.done, test.n, test.since), test.name)
	}
}

// The memory for more certificates is computed from the installed limit.
func TestSignerMemoryIsThatOfTheManifest(t *testing.T) {
	objects, err := deploy.Objects()
	require.NoError(t, err)
	for _, o := range objects {
		if o.GetKind() == "Deployment" && o.GetName() == "servingcert-signer" {
			var d appsv1.Deployment
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d))
			assert.EqualValues(t, signerMemory<<20, d.Spec.Template.Spec.Containers[0].Resources.Requests.Name(corev1.ResourceMemory, "").Value())
			return
		}
	}
	t.Fatal("no Deployment of the signer")
}
