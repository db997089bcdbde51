package deploy

import (
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
)

// Who starts a process without its Deployment starts the program that the Deployment does.
func TestProgramsAreThoseOfTheDeployments(t *testing.T) {
	objects, err := Objects()
	require.NoError(t, err)
	for _, d := range ofKind[appsv1.Deployment](t, objects, "Deployment") {
		container := d.Spec.Template.Spec.Containers[0]
		program, flags := Program(strings.TrimPrefix(d.Name, "servingcert-"))
		image, _, _ := strings.Cut(path.Base(container.Image), ":")
		assert.Equal(t, image, program, d.Name)
		assert.Subset(t, container.Args, flags, d.Name)
	}
}
