package api

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPlacesAndThePolicy: policy servingcert-unknown-annotations warns about all annotations except
// those that people may set.
func TestPlacesAndThePolicy(t *testing.T) {
	data, err := os.ReadFile("../../deploy/install.yaml")
	require.NoError(t, err)
	_, policy, ok := strings.Cut(string(data), "\n  name: servingcert-unknown-annotations\n")
	require.True(t, ok)
	policy, _, _ = strings.Cut(policy, "\nkind: ValidatingAdmissionPolicyBinding\n")
	inPolicy := map[string]bool{}
	for _, m := range regexp.MustCompile(`'(servingcert\.dev/[a-z-]+)'`).FindAllStringSubmatch(policy, -1) {
		inPolicy[m[1]] = true
	}
	known := []string{LabelInject, AnnotationStatus, AnnotationLeaf, AnnotationAdmits}
	for _, place := range Places() {
		require.NotEmpty(t, place.Annotations(), place)
		known = append(known, place.Annotations()...)
	}
	for _, key := range known {
		assert.True(t, inPolicy[key], "the policy does not know %s", key)
	}
	for key := range inPolicy {
		assert.True(t, key == Domain+"/" || slices.Contains(known, key), "no place knows %s", key)
	}
}

func TestUnknownAnnotations(t *testing.T) {
	annotations := map[string]string{
		AnnotationSecretName: "a", Domain + "/secretname": "a", AnnotationOnRotate: "restart", AnnotationStatus: "", AnnotationLeaf: "",
		"other.example/x": "", Domain + "x/y": "",
	}
	assert.Equal(t, []string{AnnotationLeaf, AnnotationOnRotate, Domain + "/secretname", AnnotationStatus}, OnService.Unknown(annotations))
	assert.Equal(t, []string{Domain + "/secretname"}, OnPod.Unknown(annotations))
	assert.Nil(t, OnPod.Unknown(nil))
}
