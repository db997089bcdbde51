package pods

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestPodsOnTheHostNetwork(t *testing.T) {
	for name, tt := range map[string]struct {
		change      rotatortest.Change
		host, onIts bool
	}{
		"no":  {nil, false, false},
		"yes": {func(p *corev1.Pod) { p.Spec.HostNetwork, p.Status.HostIP = true, "10.0.0.7" }, true, true},
		"its address is the node's second": {func(p *corev1.Pod) {
			p.Spec.HostNetwork, p.Status.HostIPs = true, []corev1.HostIP{{IP: "fd00::7"}, {IP: "::ffff:10.0.0.7"}}
		}, true, true},
		"its address is another":            {func(p *corev1.Pod) { p.Spec.HostNetwork, p.Status.HostIP = true, "10.0.0.8" }, true, false},
		"the node's address is not one":     {func(p *corev1.Pod) { p.Spec.HostNetwork, p.Status.HostIP = true, "here" }, true, false},
		"a node that has the pod's address": {func(p *corev1.Pod) { p.Status.HostIP = "10.0.0.7" }, false, true},
	} {
		f := FactsOf(rotatortest.ReadyPod("a", "web", tt.change))
		assert.Equal(t, tt.host, f.HostNetwork, name)
		assert.Equal(t, tt.onIts, f.OnNode, name)
	}
}
