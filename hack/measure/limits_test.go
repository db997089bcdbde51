package measure

import (
	"bufio"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// What is measured has the memory that an installation gives it.
func TestMemoryIsThatOfTheManifest(t *testing.T) {
	f, err := os.Open("../../deploy/install.yaml")
	require.NoError(t, err)
	defer f.Close()
	limits, pace := map[string]string{}, map[string]string{}
	for r := yaml.NewYAMLReader(bufio.NewReader(f)); ; {
		document, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		var d appsv1.Deployment
		if !strings.Contains(string(document), "kind: Deployment") {
			continue
		}
		require.NoError(t, yaml.UnmarshalStrict(document, &d))
		limits[d.Name] = memoryLimit(t, d.Spec.Template.Spec.Containers[0])
		for _, e := range d.Spec.Template.Spec.Containers[0].Env {
			if e.Name == "GOGC" {
				pace[d.Name] = "GOGC=" + e.Value
			}
		}
	}
	assert.Equal(t, map[string]string{"servingcert-signer": SignerGOGC}, pace)
	assert.Contains(t, Limited(SignerMemory), "GOMEMLIMIT="+limits["servingcert-signer"])
	assert.Contains(t, Limited(TrustMemory), "GOMEMLIMIT="+limits["servingcert-trust"])
	assert.Contains(t, Limited(RotatorMemory), "GOMEMLIMIT="+limits["servingcert-rotator"])
}

// memoryLimit is the GOMEMLIMIT of a container.
func memoryLimit(t *testing.T, c corev1.Container) string {
	i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
	if i < 0 {
		return "none"
	}
	if c.Env[i].ValueFrom == nil {
		return c.Env[i].Value
	}
	require.Equal(t, "requests.memory", c.Env[i].ValueFrom.ResourceFieldRef.Resource)
	requested := c.Resources.Requests[corev1.ResourceMemory]
	return strings.TrimSuffix(resource.NewQuantity(requested.Value(), resource.BinarySI).String(), "i") + "iB"
}
