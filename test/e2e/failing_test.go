//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

const failingNamespace = "e2e-failing"

// failingScene: pods that fail after an injection are reported and not deleted, and the suggested
// annotation repairs them.
func failingScene() *scene {
	s := &scene{
		name: "failing", about: "programs with a wrong entry, which exit because of the flags or ignore them, and one that exits anyway", manifest: "failing.yaml",
	}
	s.up = func(t *testing.T, c *cluster) {
		others := c.others(t)
		c.apply(t, "failingprograms.yaml")
		for name, want := range map[string]string{
			"web":      "flag provided but not defined: -tls-cert-file",
			"lenient":  "was not ready within a minute",
			"database": "connection refused",
		} {
			c.isFailing(t, name, want)
			pods, err := c.pods(t.Context(), failingNamespace, map[string]string{"app": name})
			require.NoError(t, err)
			for i := range pods {
				assert.Contains(t, strings.Join(pods[i].Spec.Containers[0].Args, " "), api.DefaultCertFlag+"=", "the pod is unchanged: %s", pods[i].Name)
			}
		}
		for _, name := range []string{"web", "lenient"} {
			patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:%q}}}}}`, api.AnnotationMode, api.ModeEnv)
			_, err := c.run(t.Context(), c.tools.kubectl, "patch", "--namespace", failingNamespace, "deployment", name, "--patch", patch)
			require.NoError(t, err)
			eventually(t, starting, name+" without flags", func(ctx context.Context) error {
				if err := c.rolledOut(ctx, failingNamespace, name); err != nil {
					return err
				}
				svc, err := c.service(ctx, failingNamespace, name)
				if err == nil && api.Condition(svc, api.ConditionPodsHealthy) != nil {
					err = fmt.Errorf("Service %s: %s", name, conditionText(svc, api.ConditionPodsHealthy))
				}
				return err
			})
		}
		assert.Equal(t, others, c.others(t), "pods that no Service selects, and their restarts")
	}
	return s
}

// others returns the pods that no Service selects, once one is ready and the other has crashed. It
// omits the restarts of the latter, which continue.
func (c *cluster) others(t *testing.T) processes {
	t.Helper()
	all := processes{}
	eventually(t, starting, "the pods that no Service selects", func(ctx context.Context) error {
		clear(all)
		if err := c.rolledOut(ctx, failingNamespace, "bystander"); err != nil {
			return err
		}
		for _, app := range []string{"bystander", "broken"} {
			pods, err := c.pods(ctx, failingNamespace, map[string]string{"app": app})
			if err != nil {
				return err
			}
			for i := range pods {
				n := restartsOf(&pods[i])
				if app == "broken" {
					if n == 0 {
						return fmt.Errorf("pod %s has not crashed yet", pods[i].Name)
					}
					n = 0
				}
				all[pods[i].UID] = n
			}
		}
		return nil
	})
	return all
}

// isFailing fails the test unless condition and events of the Service and the Deployment report failing
// pods, and quote the text.
func (c *cluster) isFailing(t *testing.T, name, text string) {
	t.Helper()
	eventually(t, starting, name+" fails", func(ctx context.Context) error {
		if err := c.hasCondition(ctx, failingNamespace, name, api.ConditionPodsHealthy, "False", api.PodsFailing); err != nil {
			return err
		}
		svc, err := c.service(ctx, failingNamespace, name)
		if err == nil && !strings.Contains(conditionText(svc, api.ConditionPodsHealthy), text) {
			err = fmt.Errorf("%s; want %s", conditionText(svc, api.ConditionPodsHealthy), text)
		}
		return err
	})
	for _, kind := range []string{"Service", "Deployment"} {
		eventually(t, settling, "the event on "+kind+" "+name, func(ctx context.Context) error {
			said, err := c.events(ctx, failingNamespace, kind, name, api.PodsFailing)
			if err == nil && !strings.Contains(said, "container app of pod "+name) {
				err = fmt.Errorf("event %s does not name the container: %s", api.PodsFailing, said)
			}
			return err
		})
	}
}

func restartsOf(pod *corev1.Pod) (n int32) {
	for _, s := range pod.Status.ContainerStatuses {
		n += s.RestartCount
	}
	return n
}
