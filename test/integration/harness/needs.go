package harness

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/hack/controlplane"
)

// envSkipped names a file to which each test that is skipped, whole or in part, adds a line,
// as go test says nothing about the tests of a package that passed.
const envSkipped = "SERVINGCERT_SKIPPED"

// Needs goes on if the API server serves a feature, and skips the test if it is of a version
// that is too old for it. A newer one has to serve it: the test fails.
func Needs(t testing.TB, cfg *rest.Config, feature controlplane.Feature) {
	t.Helper()
	if why := missing(t, cfg, feature); why != "" {
		t.Skip(why)
	}
}

// Serves tells whether the API server serves a feature, for a test that does without it where
// the server is too old. A newer one has to serve it: the test fails.
func Serves(t testing.TB, cfg *rest.Config, feature controlplane.Feature) bool {
	t.Helper()
	return missing(t, cfg, feature) == ""
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
	if file := os.Getenv(envSkipped); file != "" && why != "" {
		require.NoError(t, addLine(file, t.Name()+" "+why))
	}
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

// Tools goes on if all of the programs are installed, and skips the test if one is not.
func Tools(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			why := name + " is not installed"
			if file := os.Getenv(envSkipped); file != "" {
				require.NoError(t, addLine(file, t.Name()+" "+why))
			}
			t.Skip(why)
		}
	}
}

// addLine appends to a file that tests of several packages write.
func addLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
