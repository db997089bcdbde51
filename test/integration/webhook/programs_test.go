package webhook_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// TestEveryProgramIsAccepted: pods with all programs of the table, many in each, are
// accepted. Their files are in one volume.
func TestEveryProgramIsAccepted(t *testing.T) {
	ns := namespace(t, enabled)
	svc := webService("web")
	svc.Annotations[api.AnnotationFormats] = "combined.pem,keystore.p12"
	createService(t, t, ns, svc)
	c, _ := clientWithWarnings(t) // which are as many as programs
	group := int64(1000)
	given := 0
	for chunk := range slices.Chunk(programs.Builtin().All(), 40) {
		pod := webPod("web")
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
		pod.Spec.Containers = nil
		for i, p := range chunk {
			container := corev1.Container{Name: fmt.Sprintf("c-%d", i), Image: "example.com/mirror", Args: []string{"--verbose"}, Ports: []corev1.ContainerPort{{ContainerPort: 8443}}}
			switch {
			case len(p.Images) > 0:
				container.Image = "example.com/" + p.Images[0]
			case len(p.Executables) > 0:
				container.Command = []string{"/usr/bin/" + p.Executables[0]}
			default:
				container.Args = p.Arguments
			}
			pod.Spec.Containers = append(pod.Spec.Containers, container)
		}
		got, err := c.CoreV1().Pods(ns).Create(t.Context(), pod, dryRun)
		require.NoError(t, err, "from %s to %s", chunk[0].Name, chunk[len(chunk)-1].Name)
		for i, p := range chunk {
			if p.Takes() && !p.Moves { // the Service leads to another port
				given++
				assert.Regexp(t, "flags|variables", partsOf(t, got, fmt.Sprintf("c-%d", i)), p.Name)
			}
		}
	}
	t.Logf("%d programs, of which %d are told to serve TLS", len(programs.Builtin().All()), given)
}

// programsValid returns the webhook's gauge.
func programsValid(t require.TestingT, ctx testing.TB) string {
	_, page, err := harness.Get(ctx.Context(), "http://"+hook.metrics+"/metrics")
	require.NoError(t, err)
	for line := range strings.Lines(page) {
		if value, ok := strings.CutPrefix(line, "servingcert_webhook_programs_valid "); ok {
			return strings.TrimSpace(value)
		}
	}
	return "no such metric"
}

// TestProgramsOfTheOperator: the running webhook takes up ConfigMap servingcert-programs,
// with no more than the rights of its ServiceAccount.
func TestProgramsOfTheOperator(t *testing.T) {
	ns := namespace(t, enabled)
	svc := webService("web")
	svc.Annotations[api.AnnotationMode] = string(api.ModeArgs)
	createService(t, t, ns, svc)
	configMaps := client.CoreV1().ConfigMaps(systemNamespace)
	acme := webPod("web")
	acme.Spec.Containers[0].Image = "example.com/acme-web:v1"
	await := func(valid string, args ...string) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Equal(c, valid, programsValid(c, t))
			got, err := client.CoreV1().Pods(ns).Create(t.Context(), acme, dryRun)
			require.NoError(c, err)
			assert.Equal(c, append([]string{"serve"}, args...), got.Spec.Containers[0].Args)
		}, harness.Soon, 20*time.Millisecond)
	}
	own := []string{"--acme-cert", "/etc/servingcert/tls.crt", "--acme-key", "/etc/servingcert/tls.key"}
	await("1", twoFlags...)

	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: api.ProgramsName}, Data: map[string]string{
		api.ProgramsKey: "- program: acme\n  images: [acme-web]\n  flags: [--acme-cert, \"{cert}\", --acme-key, \"{key}\"]\n  reload: itself\n",
	}}
	t.Cleanup(func() {
		_ = configMaps.Delete(context.Background(), cm.Name, metav1.DeleteOptions{}) // if the test failed before it did
	})
	_, err := configMaps.Create(t.Context(), cm, metav1.CreateOptions{})
	require.NoError(t, err)
	await("1", own...)

	cm.Data[api.ProgramsKey] += "  port: 8443\n"
	_, err = configMaps.Update(t.Context(), cm, metav1.UpdateOptions{})
	require.NoError(t, err)
	await("0", own...)
	require.Contains(t, hook.Log.String(), "programs.yaml: line 5: field port is not a field of a program")

	cm.Data = map[string]string{api.ProgramsKey: "- program: acme\n  images: [acme-web]\n  none: Ask its maker.\n"}
	_, err = configMaps.Update(t.Context(), cm, metav1.UpdateOptions{})
	require.NoError(t, err)
	await("1")

	require.NoError(t, configMaps.Delete(t.Context(), cm.Name, metav1.DeleteOptions{}))
	await("1", twoFlags...)

	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: api.ProgramsName}, Data: map[string]string{api.ProgramsKey: "{"}}
	_, err = client.CoreV1().ConfigMaps(ns).Create(t.Context(), other, metav1.CreateOptions{})
	require.NoError(t, err)
	other.Name = "servingcert-programs-2"
	_, err = configMaps.Create(t.Context(), other, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = configMaps.Delete(context.Background(), other.Name, metav1.DeleteOptions{}) })
	await("1", twoFlags...)
}
