package cli

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
)

// ownKey asks for keys of the pods.
var ownKey = map[string]string{api.AnnotationKeySource: string(api.KeySourcePod)}

// makeDeployment makes the Deployment of a Service's pods, whose rollout is complete.
func makeDeployment(t *testing.T, namespace, name string, onRotate api.OnRotate) {
	t.Helper()
	labels := map[string]string{"app": name}
	d, err := admin.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{api.AnnotationOnRotate: string(onRotate)}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}}},
			},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
	_, err = admin.AppsV1().Deployments(namespace).UpdateStatus(t.Context(), d, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// makeTargeted makes a Service that asks with the annotations, and leads to the port.
func makeTargeted(t *testing.T, namespace, name string, annotations map[string]string, port int) {
	t.Helper()
	_, err := admin.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt(port)}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// restartedAt returns what the rotator wrote to restart the Deployment.
func restartedAt(t *testing.T, namespace, name string) string {
	t.Helper()
	d, err := admin.AppsV1().Deployments(namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"]
}

// handshake dials as a client that holds the bundle of the namespace.
func handshake(t *testing.T, namespace, service, address string) error {
	t.Helper()
	cm, err := admin.CoreV1().ConfigMaps(namespace).Get(t.Context(), api.BundleName, metav1.GetOptions{})
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(cm.Data[api.BundleKey])))
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", address, &tls.Config{RootCAs: roots, ServerName: service + "." + namespace + ".svc"})
	if err == nil {
		err = conn.Close()
	}
	return err
}

// noteOf returns the note of an event about the Deployment, "" if there is none.
func noteOf(t *testing.T, namespace, deployment, reason string) string {
	t.Helper()
	list, err := admin.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for i := range list.Items {
		if e := &list.Items[i]; e.Reason == reason && e.Regarding.Name == deployment {
			return e.Note
		}
	}
	return ""
}

// servingIs waits until condition Serving of a Service has the reason, and status prints the
// texts of it, and returns what status printed.
func (i installation) servingIs(t *testing.T, namespace, service, reason string, texts ...string) string {
	t.Helper()
	var out string
	waitFor(t, func() bool {
		svc, err := admin.CoreV1().Services(namespace).Get(t.Context(), service, metav1.GetOptions{})
		require.NoError(t, err)
		if c := api.Condition(svc, api.ConditionServing); c == nil || c.Reason != reason {
			return false // a command costs more than this
		}
		r := cli(t, "status", "--system-namespace", i.namespace, "-n", namespace, "-o", "json", service)
		var got struct {
			Services []struct {
				Serving struct{ Status, Reason string }
			}
		}
		if json.Unmarshal([]byte(r.out), &got) != nil || len(got.Services) != 1 {
			return false
		}
		out = cli(t, "status", "--system-namespace", i.namespace, "-n", namespace, service).out
		lacks := func(text string) bool { return !strings.Contains(out, text) }
		return got.Services[0].Serving.Reason == reason && !slices.ContainsFunc(texts, lacks)
	}, fmt.Sprintf("condition Serving of Service %s is %s: %q", service, reason, texts))
	return out
}

// TestAStolenKeyWithKeysOfPods distrusts a CA that has signed for keys of pods: one asks to
// be restarted, and one does not.
func TestAStolenKeyWithKeysOfPods(t *testing.T) {
	i := install(t, "--pod-cidrs=127.0.0.0/8", "--propagation-time=1s", "--verify-interval=1s")
	ns := newNamespace(t, "shop", map[string]string{api.LabelInject: api.InjectEnabled})
	node, port := newNode(t), int(process.PortFor(t, ""))
	servers := map[string]string{}
	for name, onRotate := range map[string]api.OnRotate{"web": api.OnRotateReload, "auto": api.OnRotateRestart} {
		makeTargeted(t, ns, name, ownKey, port)
		makeDeployment(t, ns, name, onRotate)
		servers[name] = node.serve(t, node.bind(t, ns, name, name+"-abc-0", onRotate), port)
	}
	makeTargeted(t, ns, "api", map[string]string{api.AnnotationSecretName: "api-tls"}, port)
	for name := range servers {
		i.servingIs(t, ns, name, api.ServingCurrent)
		require.NoError(t, handshake(t, ns, name, servers[name]))
	}
	before := bundleOf(t, ns)

	distrust := []string{"rotate-ca", "-n", i.namespace, "--distrust-now", "--reason", "stolen"}
	r := cli(t, distrust...)
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.out, "only a new pod gets a new key and certificate.\n")
	assert.Contains(t, r.out, "fail until their pods are replaced (kubectl rollout restart): 1: "+ns+" Deployment/web\n")
	assert.Contains(t, r.out, "that the rotator restarts (servingcert.dev/on-rotate: restart): 1: "+ns+" Deployment/auto\n")
	assert.Equal(t, before, bundleOf(t, ns), "nothing is changed before somebody agrees")

	r = cli(t, append(distrust, "--yes")...)
	assert.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, "only a new pod gets a new key and certificate.\n")
	assert.Contains(t, r.out, "not replaced: certificates of pods with their own keys, of 2 Services ("+ns+"/auto, "+ns+"/web)")
	t.Log(r.out)
	waitFor(t, func() bool { roots := bundleOf(t, ns); return len(roots) == 1 && roots[0] != before[0] }, "the root of before is out of the bundle")
	for name, address := range servers {
		require.Error(t, handshake(t, ns, name, address), name)
	}
	verified := cli(t, "verify", "--system-namespace", i.namespace, "-n", ns, "web", "--address", servers["web"])
	assert.Equal(t, 1, verified.code)
	assert.Contains(t, verified.out, "FAILED  "+servers["web"]+": a client rejects it as web."+ns+".svc: ")

	waitFor(t, func() bool { return restartedAt(t, ns, "auto") != "" }, "the one that asks for it is restarted")
	waitFor(t, func() bool { return noteOf(t, ns, "web", "ServesOldCertificate") != "" }, "of the other an event tells")
	assert.Regexp(t, "^pod web-abc-0 serves a certificate that clients have not accepted since .*; no kubelet replaces it before it is due, and only a new pod gets another: ", noteOf(t, ns, "web", "ServesOldCertificate"))
	assert.Empty(t, restartedAt(t, ns, "web"))
	i.servingIs(t, ns, "web", api.ServingStale,
		"clients no longer accept the CA of some of them, and only a new pod gets another certificate",
		"Deployment web")

	for name, onRotate := range map[string]api.OnRotate{"auto": api.OnRotateRestart, "web": api.OnRotateReload} { // as their ReplicaSets do
		require.NoError(t, admin.CoreV1().Pods(ns).Delete(t.Context(), name+"-abc-0", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
		address := node.serve(t, node.bind(t, ns, name, name+"-def-0", onRotate), port)
		require.NoError(t, handshake(t, ns, name, address), "a new pod has a new key, and a certificate of the new CA")
		i.servingIs(t, ns, name, api.ServingCurrent)
		r = cli(t, "verify", "--system-namespace", i.namespace, "-n", ns, name, "--address", address)
		assert.Zero(t, r.code, r.out+r.err)
		assert.Contains(t, r.out, " of the pod's own key, which its kubelet refreshes at ")
	}
	t.Log(cli(t, "status", "--system-namespace", i.namespace, "-n", ns).out)
}
