package harness

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/hack/controlplane"
)

func TestWhatAnAPIServerLacks(t *testing.T) {
	feature := controlplane.PodCertificates
	serves := &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "podcertificaterequests/status"}, {Name: "podcertificaterequests"}}}
	other := &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "clustertrustbundles"}}}
	for _, tc := range []struct {
		served   *metav1.APIResourceList
		minor    int
		why, err string
	}{
		{serves, 36, "", ""},
		{serves, 30, "", ""},
		{nil, 35, "needs PodCertificateRequests, of Kubernetes 1.36; this is 1.35", ""},
		{other, 33, "needs PodCertificateRequests, of Kubernetes 1.36; this is 1.33", ""},
		{other, 36, "", "the API server is of Kubernetes 1.36 and does not serve PodCertificateRequests, which 1.36 does"},
		{nil, 37, "", "the API server is of Kubernetes 1.37 and does not serve PodCertificateRequests, which 1.36 does"},
	} {
		why, err := lacks(feature, tc.served, tc.minor)
		assert.Equal(t, tc.why, why)
		if tc.err == "" {
			assert.NoError(t, err)
		} else {
			assert.EqualError(t, err, tc.err)
		}
	}
}

// TestThePageHasEveryFeature: what tests may be skipped for is what the documentation says that
// old versions lack.
func TestThePageHasEveryFeature(t *testing.T) {
	page, err := os.ReadFile("../../../docs/kubernetes-versions.md")
	require.NoError(t, err)
	row := regexp.MustCompile(`(?m)^\| \[?(\w+)\]?[^|]*\| 1\.(\d+) \|`)
	var documented, known []string
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, fmt.Sprintf("%s since 1.%s", m[1], m[2]))
	}
	for _, feature := range controlplane.Features() {
		known = append(known, fmt.Sprintf("%s since 1.%d", feature.Name, feature.Minor))
	}
	require.ElementsMatch(t, known, documented)
}
