package mutate

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
)

// TestEveryProgram: a container of each program, by each of its images and executables, gets
// what its own entry describes, in a pod that keeps every property.
func TestEveryProgram(t *testing.T) {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{api.AnnotationSecretName: "web-tls", api.AnnotationFormats: "combined.pem,keystore.p12"}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports:    []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(8443)}},
		},
	}
	for _, p := range programs.Builtin().All() {
		t.Run(p.Name, func(t *testing.T) {
			svc := svc.DeepCopy()
			if p.Moves {
				svc.Spec.Ports[0].TargetPort = intstr.FromInt32(p.Ports[0])
			}
			var containers []corev1.Container
			for _, image := range p.Images {
				containers = append(containers, corev1.Container{Image: "registry.example.com:5000/mirror/" + image + ":v" + cmp.Or(p.Since, "1") + "@sha256:00", Args: []string{"--verbose"}})
			}
			for _, executable := range p.Executables {
				containers = append(containers, corev1.Container{Image: "example.com/mirror", Command: []string{"/usr/bin/" + executable}, Args: []string{"--verbose"}})
			}
			for _, c := range containers {
				c.Name, c.Ports = "web", []corev1.ContainerPort{{ContainerPort: svc.Spec.Ports[0].TargetPort.IntVal}}
				group := int64(1000)
				pod := &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{c}, SecurityContext: &corev1.PodSecurityContext{FSGroup: &group}},
				}
				after := pass(t, pod, choose.Known{Services: []*corev1.Service{svc}})
				checkGiven(t, &p, &after.Spec.Containers[0], after.Annotations[api.AnnotationStatus])
			}
		})
	}
}

// checkGiven fails if the container did not get all of the program's entry, or, if the entry
// has nothing, if it got more than every container gets.
func checkGiven(t *testing.T, p *programs.Program, c *corev1.Container, status string) {
	t.Helper()
	in := &input{settings: api.DefaultSettings(), choice: choose.Choice{Password: formats.DefaultPassword}}
	for _, f := range p.Flags {
		assert.Contains(t, append(c.Args, c.Command...), in.replace(f))
	}
	for _, v := range p.Env {
		i := indexEnv(c, v.Name)
		require.GreaterOrEqual(t, i, 0, v.Name)
		assert.Equal(t, in.replace(v.Value), c.Env[i].Value)
	}
	assert.Len(t, append(c.Args, c.Command...), len(p.Flags)+1+min(1, len(c.Command)))
	assert.Len(t, c.Env, len(p.Env)+3)
	var said api.InjectionStatus
	require.NoError(t, json.Unmarshal([]byte(status), &said))
	assert.Equal(t, len(p.Flags) > 0, strings.Contains(said.Containers["web"], "flags"))
	assert.Equal(t, len(p.Env) > 0, strings.Contains(said.Containers["web"], "variables"))
}
