//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
)

const (
	correctedNamespace = "e2e-corrected"
	// restarts is how often a container has to be restarted to be called one that crashes
	// time and again.
	restarts = 2
)

// correctedScene: unrequested flags are taken back from programs that exit
// because of them, or ignore them and are never ready, and from no others.
func correctedScene() *scene {
	s := &scene{
		name: "corrected", about: "programs whose entry is wrong, so that they exit because of the flags or ignore them, and such that exit anyway", manifest: "corrected.yaml",
		rebooted: func(t *testing.T, c *cluster) {
			c.isCorrected(t, "web")
			c.getsFlags(t, "web", false)
		},
	}
	s.up = func(t *testing.T, c *cluster) {
		others := c.others(t)
		moments := watchMoments(t, c.clients, correctedNamespace)
		c.apply(t, "correctedprograms.yaml")
		for _, name := range []string{"web", "usage", "silent", "lenient"} {
			c.isCorrected(t, name)
			for _, line := range moments.took(name) {
				s.note(line)
			}
		}
		c.getsFlagsNoMore(t, "web")
		c.isCleared(t, "mute")

		for name, reason := range map[string]string{"database": "Error", "memory": "OOMKilled", "insists": "Error"} {
			c.crashesOn(t, moments, name, reason)
		}
		for _, name := range []string{"database", "memory"} {
			svc, err := c.service(t.Context(), correctedNamespace, name)
			require.NoError(t, err)
			assert.Nil(t, api.Condition(svc, api.ConditionFlags), "Service %s: %s", name, told(svc, api.ConditionFlags))
		}
		c.getsFlags(t, "insists", true)

		assert.Equal(t, others, c.others(t), "pods that no Service selects, and their restarts")
		c.statusIsFine(t, "web", "usage", "silent", "lenient", "mute", "database", "memory")
	}
	return s
}

// others are the pods of corrected.yaml, when one is ready and the other has crashed; of
// that one without its restarts, which go on.
func (c *cluster) others(t *testing.T) processes {
	t.Helper()
	all := processes{}
	eventually(t, starting, "the pods that no Service selects", func(ctx context.Context) error {
		clear(all)
		if err := c.rolledOut(ctx, correctedNamespace, "bystander"); err != nil {
			return err
		}
		for _, app := range []string{"bystander", "broken"} {
			pods, err := c.pods(ctx, correctedNamespace, map[string]string{"app": app})
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

// isCorrected fails the test unless the Deployment is ready without flags, and all is told
// that there is to tell.
func (c *cluster) isCorrected(t *testing.T, name string) {
	t.Helper()
	eventually(t, starting, name+" without flags", func(ctx context.Context) error { return c.rolledOut(ctx, correctedNamespace, name) })
	pods, err := c.pods(t.Context(), correctedNamespace, map[string]string{"app": name})
	require.NoError(t, err)
	for i := range pods {
		pod := &pods[i]
		status, _ := api.ParseInjectionStatus(pod.Annotations[api.AnnotationStatus])
		assert.False(t, hasFlags(pod), "%s: %q", pod.Name, pod.Spec.Containers[0].Args)
		assert.NotEmpty(t, status.Withheld["app"], pod.Name)
		assert.Equal(t, "files,env", status.Containers["app"], pod.Name)
		assert.NotEqual(t, corev1.URISchemeHTTPS, pod.Spec.Containers[0].ReadinessProbe.HTTPGet.Scheme, pod.Name)
	}
	require.NoError(t, c.says(t.Context(), correctedNamespace, name, api.ConditionFlags, "False", api.FlagsWithheld))
	svc, err := c.service(t.Context(), correctedNamespace, name)
	require.NoError(t, err)
	facts := state.FlagsOf(svc)
	require.Len(t, facts, 1, told(svc, api.ConditionFlags))
	assert.Equal(t, state.VerdictWithheld, facts[0].Verdict)
	assert.Equal(t, "Deployment/"+name, facts[0].Workload)
	assert.Equal(t, "app", facts[0].Container)
	for _, kind := range []string{"Service", "Deployment"} {
		eventually(t, settling, "the event on "+kind+" "+name, func(ctx context.Context) error {
			said, err := c.events(ctx, correctedNamespace, kind, name, api.FlagsWithheld)
			if err == nil && !strings.Contains(said, "app") {
				err = fmt.Errorf("event %s does not name the container: %s", api.FlagsWithheld, said)
			}
			return err
		})
	}
}

// getsFlagsNoMore fails the test unless a pod that is created now for the Deployment has no
// flags, and so never crashes.
func (c *cluster) getsFlagsNoMore(t *testing.T, name string) {
	t.Helper()
	_, err := c.run(t.Context(), c.tools.kubectl, "scale", "--namespace", correctedNamespace, "--replicas=3", "deployment", name)
	require.NoError(t, err)
	eventually(t, starting, "a third replica", func(ctx context.Context) error { return c.rolledOut(ctx, correctedNamespace, name) })
	pods, err := c.pods(t.Context(), correctedNamespace, map[string]string{"app": name})
	require.NoError(t, err)
	require.Len(t, pods, 3)
	for i := range pods {
		assert.False(t, hasFlags(&pods[i]), "%s: %q", pods[i].Name, pods[i].Spec.Containers[0].Args)
		assert.Zero(t, restartsOf(&pods[i]), pods[i].Name)
	}
}

// getsFlags fails the test unless a pod of the Deployment's template that is created now
// is given flags, or is given none. It is a dry run: the webhook answers it as any other.
func (c *cluster) getsFlags(t *testing.T, name string, want bool) {
	t.Helper()
	deployment := &appsv1.Deployment{}
	require.NoError(t, c.admin.Get(t.Context(), client.ObjectKey{Namespace: correctedNamespace, Name: name}, deployment))
	eventually(t, settling, "a pod of "+name, func(ctx context.Context) error {
		pod := &corev1.Pod{ObjectMeta: deployment.Spec.Template.ObjectMeta, Spec: deployment.Spec.Template.Spec}
		pod.GenerateName, pod.Namespace = name+"-", correctedNamespace
		if err := c.admin.Create(ctx, pod, client.DryRunAll); err != nil {
			return err
		}
		if hasFlags(pod) != want {
			return fmt.Errorf("its arguments are %q: %s", pod.Spec.Containers[0].Args, pod.Annotations[api.AnnotationStatus])
		}
		return nil
	})
}

// isCleared fails the test unless it was tried to leave the flags out, which did not help,
// so that new pods get them again.
func (c *cluster) isCleared(t *testing.T, name string) {
	t.Helper()
	eventually(t, starting, name+" is cleared", func(ctx context.Context) error {
		return c.says(ctx, correctedNamespace, name, api.ConditionFlags, "True", api.FlagsKept)
	})
	svc, err := c.service(t.Context(), correctedNamespace, name)
	require.NoError(t, err)
	facts := state.FlagsOf(svc)
	require.Len(t, facts, 1, told(svc, api.ConditionFlags))
	assert.Equal(t, state.VerdictCleared, facts[0].Verdict)
	c.getsFlags(t, name, true)
}

// crashesOn fails the test unless the Deployment's only pod is the first that it had, and
// crashes time and again with its flags.
func (c *cluster) crashesOn(t *testing.T, m *moments, name, reason string) {
	t.Helper()
	eventually(t, starting, name+" crashes on", func(ctx context.Context) error {
		pods, err := c.pods(ctx, correctedNamespace, map[string]string{"app": name})
		if err != nil {
			return err
		}
		if len(pods) != 1 || restartsOf(&pods[0]) < restarts {
			return fmt.Errorf("it has %d pods; want 1 that was restarted %d times", len(pods), restarts)
		}
		pod := &pods[0]
		if last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.Reason != reason {
			return fmt.Errorf("pod %s ended with %v; want reason %s", pod.Name, last, reason)
		}
		assert.True(t, hasFlags(pod), "%s: %q", pod.Name, pod.Spec.Containers[0].Args)
		return nil
	})
	assert.Equal(t, 1, m.count(name), "pods that %s has had", name)
}

// statusIsFine fails the test unless kubectl servingcert status shows the certificates of
// the Services as those of any other.
func (c *cluster) statusIsFine(t *testing.T, services ...string) {
	t.Helper()
	out, err := c.run(t.Context(), c.tools.plugin, "status", "--namespace", correctedNamespace)
	require.NoError(t, err)
	var fine []string
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 3 && f[0] == correctedNamespace && f[2] == "True" && f[3] == "Issued" {
			fine = append(fine, f[1])
		}
	}
	assert.ElementsMatch(t, services, fine, out)
}

// hasFlags reports whether the pod's first container was given the flags.
func hasFlags(pod *corev1.Pod) bool {
	return strings.Contains(strings.Join(pod.Spec.Containers[0].Args, " "), api.DefaultCertFlag+"=")
}

func restartsOf(pod *corev1.Pod) (n int32) {
	for _, s := range pod.Status.ContainerStatuses {
		n += s.RestartCount
	}
	return n
}
