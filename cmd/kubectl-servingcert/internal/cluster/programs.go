package cluster

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
)

// maxMistakes is the maximum length of the mistakes in a warning, in characters.
const maxMistakes = 500

// Programs returns the table of programs of the webhook in the namespace, or nil for the
// built-in one. warning is why the webhook's table may differ: the user may not read the
// ConfigMap, or it is invalid.
func (c *Cluster) Programs(ctx context.Context, namespace string) (table *programs.Table, warning string, err error) {
	cm, err := c.Client.CoreV1().ConfigMaps(namespace).Get(ctx, api.ProgramsName, metav1.GetOptions{})
	name := fmt.Sprintf("ConfigMap %s/%s", namespace, api.ProgramsName)
	switch {
	case apierrors.IsNotFound(err):
		return nil, "", nil
	case apierrors.IsForbidden(err):
		return nil, name + " cannot be read by this user: only the built-in programs are known here", nil
	case err != nil:
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	t, err := programs.OfConfigMap(cm)
	if err != nil {
		mistakes := api.Shorten(strings.ReplaceAll(err.Error(), "\n", "; "), maxMistakes)
		return nil, name + " is invalid, and the webhook uses the last valid one: only the built-in programs are known here: " + mistakes, nil
	}
	return &t, "", nil
}
