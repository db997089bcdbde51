package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
)

// TestTheLongestTrustDomainNamesAFile: a name in a Linux file system has at most 255 bytes (NAME_MAX).
func TestTheLongestTrustDomainNamesAFile(t *testing.T) {
	longest := strings.Repeat("a.", 112) + "aa"
	require.NoError(t, pki.CheckTrustDomain(longest))
	require.Error(t, pki.CheckTrustDomain(longest+"a"))
	assert.Len(t, IdentityRoots(longest), 255)
}
