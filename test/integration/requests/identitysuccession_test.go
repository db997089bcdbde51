package requests

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// servers are all that verify identities, however late they are: they have each version of the
// ClusterTrustBundle since the test began.
type servers struct {
	ns   string
	stop func()

	mu         sync.Mutex
	stopped    bool
	bundles    [][]*x509.Certificate
	identities [][]*x509.Certificate
	refused    []error
}

// startServers watches the ClusterTrustBundle: no version of it is missed.
func startServers(t *testing.T) *servers {
	t.Helper()
	s := &servers{ns: newNamespace(t, true)}
	only := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, api.ClientBundleName).String()}
	watched, err := certificates.ClusterTrustBundles().Watch(t.Context(), only) // begins with the object as it is
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range watched.ResultChan() {
			s.take(event)
		}
	}()
	s.stop = sync.OnceFunc(func() {
		s.mu.Lock()
		s.stopped = true
		s.mu.Unlock()
		watched.Stop()
		<-ended
	})
	t.Cleanup(s.stop)
	return s
}

// take has all identities verified by a new version of the ClusterTrustBundle.
func (s *servers) take(event watch.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped && event.Type == watch.Error {
		return // the end of the connection
	}
	bundle, ok := event.Object.(*certificatesv1.ClusterTrustBundle)
	if !ok || event.Type == watch.Deleted {
		s.refused = append(s.refused, fmt.Errorf("event %s: %v", event.Type, event.Object))
		return
	}
	roots, err := pki.ParseCertificates([]byte(bundle.Spec.TrustBundle))
	if err != nil {
		s.refused = append(s.refused, err)
		return
	}
	s.bundles = append(s.bundles, roots)
	for _, chain := range s.identities {
		s.verify(chain, len(s.bundles)-1)
	}
}

// verify has an identity verified by a version of the ClusterTrustBundle.
func (s *servers) verify(chain []*x509.Certificate, version int) {
	if err := admitted(chain, s.bundles[version]); err != nil {
		s.refused = append(s.refused, fmt.Errorf("the identity by %s, with %d roots: %w", chain[0].Issuer, len(s.bundles[version]), err))
	}
}

// admitted is nil if one of the roots verifies an identity.
func admitted(chain, roots []*x509.Certificate) (err error) {
	for _, root := range roots {
		failed := pki.VerifyClient(chain[0], chain[1:], root, time.Now())
		if failed == nil {
			return nil
		}
		err = errors.Join(err, failed)
	}
	return err
}

// admit gets an identity for a new pod, and has all servers verify it.
func (s *servers) admit(t *testing.T) []*x509.Certificate {
	t.Helper()
	pod := runningPod(t, s.ns, "web", withIdentity)
	chain := identityOf(t, askForPod(t, requestOfClient(t, pod, newPodKey(t, pki.ECDSAP256))))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.identities = append(s.identities, chain)
	for version := range s.bundles {
		s.verify(chain, version)
	}
	return chain
}

// requireAll fails if a server has refused an identity.
func (s *servers) requireAll(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Empty(t, s.refused)
}

// clientCA is the published status of the CA for clients.
func clientCA(t *testing.T) api.CAStatus {
	t.Helper()
	cm, err := admin.CoreV1().ConfigMaps(api.DefaultNamespace).Get(t.Context(), api.ClientCAStatusName, metav1.GetOptions{})
	require.NoError(t, err)
	return api.ParseCAStatus(cm.Data)
}

// inPhase waits until the CA for clients is.
func inPhase(t *testing.T, phase string) {
	t.Helper()
	harness.Eventually(t, func() error {
		if is := clientCA(t).Phase; is != phase {
			return fmt.Errorf("it is in phase %q", is)
		}
		return nil
	})
}

// plugin is a command of kubectl servingcert.
func plugin(args ...string) *exec.Cmd {
	return exec.Command(filepath.Join(dir, "kubectl-servingcert"), append(args, "--kubeconfig="+plane.KubeconfigFile())...)
}

// rotate runs rotate-ca --clients, and returns what waits for it and returns what it printed.
func rotate(t *testing.T, args ...string) (wait func() string) {
	t.Helper()
	cmd := plugin(append([]string{"rotate-ca", "--clients"}, args...)...)
	var out, log process.Log
	cmd.Stdout, cmd.Stderr = &out, &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, or the test has failed
	return func() string {
		t.Helper()
		require.NoError(t, cmd.Wait(), "%s%s", out.String(), log.String())
		t.Log(out.String())
		return out.String()
	}
}

// deleteLease deletes the Lease of signers that elect a leader, when the test ends.
func deleteLease(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		require.NoError(t, admin.CoordinationV1().Leases(api.DefaultNamespace).Delete(context.Background(), "servingcert-signer", metav1.DeleteOptions{}))
	})
}

// signedNow checks which generation signed an identity.
func signedNow(t *testing.T, chain []*x509.Certificate, generation int) {
	t.Helper()
	assert.Contains(t, chain[0].Issuer.CommonName, fmt.Sprintf("servingcert client CA %d ", generation))
}

// The CA for clients is replaced: at every moment, all servers verify all identities, however old either is, also if the
// signer is restarted in the middle. A CA whose key was stolen is distrusted at once.
func TestTheCAForClientsIsReplaced(t *testing.T) {
	needsIdentities(t)
	deleteLease(t)
	flags := []string{"--leader-elect=true", "--trust-domain=example.com", "--ca-soak=10s"}
	signer := startSigner(t, flags...)
	clientRoots(t)
	s := startServers(t)
	first := clientCA(t).Generation
	signedNow(t, s.admit(t), first)

	followed := rotate(t, "--reason=drill")
	inPhase(t, api.PhaseWait)
	signedNow(t, s.admit(t), first)
	require.NoError(t, signer.Stop())
	require.Equal(t, api.PhaseWait, clientCA(t).Phase, "the signer is restarted in the middle")
	signer.Start(t)
	inPhase(t, api.PhaseRetire)
	signedNow(t, s.admit(t), first+1)
	out := followed()
	assert.Contains(t, out, "requested: overlap \"drill\"\n")
	assert.Contains(t, out, fmt.Sprintf("  Wait: generation %d signs, generation %d is next; ", first, first+1))
	assert.Contains(t, out, fmt.Sprintf("done: generation %d signs identities\nleft: generation %d signed until ", first+1, first))
	assert.Contains(t, out, "left: pods that were created before keep their identity, which stays valid, until their kubelets renew it, after two thirds of its lifetime: ")
	assert.Contains(t, out, s.ns+" Pod/web-")
	shown, _ := plugin("status").Output() // it fails, as there is no webhook
	assert.Regexp(t, fmt.Sprintf(`(?m)^Client CA +generation %d signs, until `, first+1), string(shown))
	assert.Regexp(t, fmt.Sprintf(`(?m)^ +generation %d signed until .*; its last certificates expire by `, first), string(shown))
	assert.Regexp(t, "(?m)^Trust +ClusterTrustBundle servingcert.dev:client:ca holds the bundle$", string(shown))
	signedNow(t, s.admit(t), first+1)
	s.stop()
	s.requireAll(t)
	assert.Len(t, s.bundles[len(s.bundles)-1], len(s.bundles[0])+1, "the root of generation %d is there until its identities have expired", first)

	before := s.bundles[len(s.bundles)-1]
	out = rotate(t, "--distrust-now", "--reason=stolen", "--yes")()
	assert.Contains(t, out, "A new CA signs identities, and servers refuse all earlier ones as soon as they have its root, which kubelets give them within 1m32s. ")
	assert.Regexp(t, `(?m)^  workloads with an identity, until their pods are replaced \(kubectl rollout restart\) or their kubelets renew it, after two thirds of its lifetime: \d+: .*`+s.ns+` Pod/web-`, out)
	assert.Contains(t, out, fmt.Sprintf("done: generation %d signs identities\n", first+2))
	assert.Contains(t, out, "refused: servers refuse the identity of pods that were created before, ")
	var roots []*x509.Certificate
	harness.Eventually(t, func() error { // it is published after the status
		if roots = clientRoots(t); len(roots) != 1 {
			return fmt.Errorf("%d roots", len(roots))
		}
		return nil
	})
	for _, chain := range s.identities {
		assert.Error(t, admitted(chain, roots), "by %s", chain[0].Issuer)
	}
	renewed := s.admit(t)
	signedNow(t, renewed, first+2)
	require.NoError(t, admitted(renewed, roots))
	require.Error(t, admitted(renewed, before))
	assert.NotContains(t, signer.Log.String(), "PRIVATE KEY")
}

// doctor sees whether servers have the roots of the CA for clients, and which pods are older than the trust domain.
func TestDoctorSeesTheCAForClients(t *testing.T) {
	needsIdentities(t)
	deleteLease(t)
	signer := startSigner(t, "--leader-elect=true", "--trust-domain=example.com")
	clientRoots(t)
	ns := newNamespace(t, true)
	newService(t, ns, "db", hasSecret("db-tls"), func(svc *corev1.Service) {
		svc.Annotations[api.AnnotationClients] = "shop/cart"
		svc.Spec.Ports[0].TargetPort = intstr.FromString("sc-tls-5432")
	})
	old := runningPod(t, ns, "db", func(pod *corev1.Pod) {
		always := corev1.ContainerRestartPolicyAlways
		pod.Spec.InitContainers = []corev1.Container{{
			Name: api.ProxyContainer, Image: "example.com/proxy", RestartPolicy: &always, Args: []string{"--listen=sc-tls-5432=15432:5432"},
		}}
	})
	examined := func() string {
		out, _ := plugin("doctor").Output() // most of servingcert is not installed here
		return string(out)
	}
	out := examined()
	assert.Regexp(t, `(?m)^warning +SC504 +Pod `+ns+"/"+old.Name+`\n +1 of its pods have another proxy than new pods would: the proxy admits all clients at port sc-tls-5432, which a Service guards`, out)
	assert.NotContains(t, out, api.ClientBundleName)

	require.NoError(t, signer.Stop())
	other := startSigner(t, "--leader-elect=true") // it does not write the roots again
	require.NoError(t, certificates.ClusterTrustBundles().Delete(t.Context(), api.ClientBundleName, metav1.DeleteOptions{}))
	lacks := regexp.MustCompile(`(?m)^warning +SC305 +ClusterTrustBundle servingcert.dev:client:ca\n +it does not exist: new pods whose proxy verifies clients do not start`)
	harness.Eventually(t, func() error { // doctor looks no further while nobody leads
		if out := examined(); !lacks.MatchString(out) {
			return errors.New(out)
		}
		return nil
	})
	require.NoError(t, other.Stop())
	signer.Start(t)
	clientRoots(t)
}
