package harness

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/skip"
)

// Needs goes on if the API server serves a feature, and skips the test if it is of a version
// that is too old for it. A newer one has to serve it: the test fails.
func Needs(t testing.TB, cfg *rest.Config, feature controlplane.Feature) {
	t.Helper()
	if why := missing(t, cfg, feature); why != "" {
		skip.Now(t, why)
	}
}

// Serves tells whether the API server serves a feature, for a test that does without it where
// the server is too old. A newer one has to serve it: the test fails.
func Serves(t testing.TB, cfg *rest.Config, feature controlplane.Feature) bool {
	t.Helper()
	why := missing(t, cfg, feature)
	if why != "" {
		skip.Part(t, why)
	}
	return why == ""
}

// missing tells why the feature is not served, "" if it is.
func missing(t testing.TB, cfg *rest.Config, feature controlplane.Feature) (why string) {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	require.NoError(t, err)
	version, err := client.ServerVersion()
	require.NoError(t, err)
	minor, err := strconv.Atoi(strings.TrimSuffix(version.Minor, "+")) // clouds add one
	require.NoError(t, err)
	served, err := client.ServerResourcesForGroupVersion(feature.Resource(minor).GroupVersion().String())
	if !apierrors.IsNotFound(err) {
		require.NoError(t, err)
	}
	why, err = lacks(feature, served, minor)
	require.NoError(t, err)
	return why
}

// lacks tells why an API server of Kubernetes 1.minor may lack a feature, "" if it serves it.
// It is an error if the server has no such excuse.
func lacks(feature controlplane.Feature, served *metav1.APIResourceList, minor int) (why string, err error) {
	if served != nil {
		for i := range served.APIResources {
			if served.APIResources[i].Name == feature.Resource(minor).Resource {
				return "", nil
			}
		}
	}
	if minor >= feature.Minor {
		return "", fmt.Errorf("the API server is of Kubernetes 1.%d and does not serve %s, which 1.%d does", minor, feature.Name, feature.Minor)
	}
	return fmt.Sprintf("needs %s, of Kubernetes 1.%d; this is 1.%d", feature.Name, feature.Minor, minor), nil
}
