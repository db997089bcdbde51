package pods

import (
	"fmt"
	"strings"
	"testing"
	"unique"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/bounded"
	"github.com/servingcert/servingcert/test/rotatortest"
)

// connecting makes the pod's proxy connect to n ports.
func connecting(n int) rotatortest.Change {
	return func(p *corev1.Pod) {
		always := corev1.ContainerRestartPolicyAlways
		c := corev1.Container{Name: api.ProxyContainer, RestartPolicy: &always, Args: []string{"--ca-file=/x"}}
		for i := range n {
			c.Args = append(c.Args, fmt.Sprintf("--connect=127.1.0.1:%d=api.shop.svc:443", i+1))
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
}

// TestClient: an ordinary pod has no sketch, pods that connect alike share one, and what is too large is not compared.
func TestClient(t *testing.T) {
	ordinary := FactsOf(rotatortest.Pod(rotatortest.WithPort))
	assert.Zero(t, ordinary.Template.Value().sketch)
	assert.Equal(t, "web", ordinary.Client().Name)

	connects := FactsOf(rotatortest.Pod(connecting(2), rotatortest.Label("a", "b")))
	proxy, ok := api.ProxyOf(connects.Client())
	assert.True(t, ok)
	assert.Len(t, proxy.Connects, 2)
	other := FactsOf(rotatortest.Pod(connecting(2), rotatortest.WithPort))
	assert.Equal(t, connects.Template.Value().sketch, other.Template.Value().sketch)

	for name, change := range map[string]rotatortest.Change{
		"sketch": func(p *corev1.Pod) {
			p.Spec.HostAliases = []corev1.HostAlias{{IP: "10.0.0.1", Hostnames: []string{strings.Repeat("x", maxSketch)}}}
		},
		"labels": rotatortest.Label("a", strings.Repeat("x", maxLabels)),
		"ports": func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Ports: make([]corev1.ContainerPort, maxPorts/len("=0=0,")+1)}}
		},
	} {
		f := FactsOf(rotatortest.Pod(rotatortest.Annotation(api.AnnotationConnect, "*"), change))
		assert.Equal(t, unique.Make(unknown), f.Template.Value().sketch, name)
		assert.Empty(t, f.Client().Annotations[api.AnnotationConnect], name)
	}
	for name, change := range map[string]rotatortest.Change{
		"opted out": rotatortest.Label(api.LabelInject, api.InjectDisabled), "mistake": rotatortest.Annotation(api.AnnotationMode, "x"),
	} {
		assert.Zero(t, FactsOf(rotatortest.Pod(connecting(1), change)).Template.Value().sketch, name)
	}
}

// TestHostileClients: what decides about connections costs a few times the size of the pod.
func TestHostileClients(t *testing.T) {
	const n = 10_000
	aliases := func(p *corev1.Pod) {
		for range n {
			p.Spec.HostAliases = append(p.Spec.HostAliases, corev1.HostAlias{IP: "127.1.0.1", Hostnames: []string{"api.shop.svc", "x"}})
		}
	}
	uses := func(p *corev1.Pod) {
		c := corev1.Container{Name: "c"}
		for i := range n {
			c.Args = append(c.Args, fmt.Sprint("--listen=:", i))
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("LISTEN", i), Value: fmt.Sprint("localhost:", i)})
		}
		p.Spec.Containers = []corev1.Container{c}
	}
	for name, change := range map[string]rotatortest.Change{"connects": connecting(n), "aliases": rotatortest.All(connecting(300), aliases), "ports": uses} {
		pod := rotatortest.Pod(change)
		var f *Facts
		assert.NoError(t, bounded.Check(pod.Size(), func() { f = FactsOf(pod) }), name)
		assert.LessOrEqual(t, kept(f), MaxKept, name)
		assert.NotEmpty(t, f.Template.Value().sketch.Value(), name)
	}
}
