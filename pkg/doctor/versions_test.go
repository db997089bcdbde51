package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestThePageOnVersionsAgrees: doctor and the documentation name the same minimum versions.
func TestThePageOnVersionsAgrees(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(docs, "kubernetes-versions.md"))
	require.NoError(t, err)
	page := string(content)
	assert.Contains(t, page, fmt.Sprintf(" On 1.%d and newer. ", oldestMinor))
	assert.Regexp(t, fmt.Sprintf(`(?m)^\| \[ClusterTrustBundles\][^|]* \| 1\.%d \|`, clusterTrustBundlesMinor), page)
	assert.Regexp(t, fmt.Sprintf(`(?m)^\| \[PodCertificateRequests\][^|]* \| 1\.%d \|`, podCertificatesMinor), page)
	for id, minor := range map[ID]int{ClusterTrustBundles: clusterTrustBundlesMinor, PodCertificates: podCertificatesMinor} {
		for i := range checks {
			if checks[i].ID == id {
				assert.Contains(t, checks[i].Fix, fmt.Sprintf("Kubernetes 1.%d or later", minor))
			}
		}
	}
}
