//go:build upgrade

package lifecycle

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// previous is the version that is upgraded from, and gone back to: a commit of this
// repository. Each release makes it the release before.
const previous = "c4457bcf21db854dbb9c00f2f54f2432d643e4b8"

// release is a version: the directory of its programs, and its install.yaml.
type release struct {
	programs string
	objects  []*unstructured.Unstructured
	drain    []string // flags of a webhook that can drain
}

func thisRelease(t *testing.T) release {
	t.Helper()
	objects, err := deploy.Objects()
	require.NoError(t, err)
	return release{dir, objects, []string{drains}}
}

// previousRelease builds the previous version from the repository's history.
func previousRelease(t *testing.T) release {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "git", "cat-file", "-e", previous+"^{commit}").CombinedOutput(); err != nil {
		require.FailNow(t, "this clone does not have the commit to upgrade from",
			"%s: %v %s\nThe test needs git and the history: in a shallow clone, git fetch --unshallow", previous, err, out)
	}
	source := t.TempDir()
	archive := filepath.Join(source, "source.tar")
	root, err := exec.CommandContext(t.Context(), "git", "rev-parse", "--show-toplevel").Output()
	require.NoError(t, err)
	execute(t, string(bytes.TrimSpace(root)), "git", "archive", "--output="+archive, previous, "go.mod", "go.sum", "cmd", "pkg", "deploy")
	execute(t, source, "tar", "-xf", archive)
	programs := filepath.Join(source, "bin")
	require.NoError(t, os.Mkdir(programs, 0o700))
	execute(t, source, "go", "build", "-o", programs, "./cmd/signer", "./cmd/rotator", "./cmd/webhook")
	manifest, err := os.ReadFile(filepath.Join(source, "deploy", "install.yaml"))
	require.NoError(t, err)
	objects, err := deploy.Decode(manifest)
	require.NoError(t, err)
	return release{programs: programs, objects: objects}
}

func execute(t *testing.T, in, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = in
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
}

func (r release) apply(t *testing.T) {
	t.Helper()
	var objects []*unstructured.Unstructured // an apply writes into them
	for _, obj := range r.objects {
		objects = append(objects, obj.DeepCopy())
	}
	require.NoError(t, deploy.ApplyObjects(t.Context(), admin, "test", objects))
}

func (r release) signer(t *testing.T, soak string) *program {
	t.Helper()
	return startFrom(t, r.programs, "signer", true, "--ca-soak="+soak, "--ca-reissue-window=1s")
}

// rotators starts one for each Deployment that the version has.
func (r release) rotators(t *testing.T) installation {
	t.Helper()
	var all installation
	for _, obj := range r.objects {
		name := strings.TrimPrefix(obj.GetName(), "servingcert-")
		if obj.GetKind() == "Deployment" && (name == "rotator" || name == "trust") {
			all = append(all, startFrom(t, r.programs, name, true, "--pod-cidrs=127.0.0.0/8"))
		}
	}
	return all
}

// webhooks starts two replicas.
func (r release) webhooks(t *testing.T, b *balancer) [2]*program {
	t.Helper()
	return [2]*program{b.replica(t, r.programs, r.drain...), b.replica(t, r.programs, r.drain...)}
}

// issued is what must not change without a reason.
type issued struct{ leaf, bundle, ca, problem string }

func issuedNow(t *testing.T, web *corev1.Service) issued {
	t.Helper()
	status := caStatus(t)
	return issued{
		leaf:    leafOf(t, secretOf(t, web.Namespace, web.Annotations[api.AnnotationSecretName])),
		bundle:  bundleOf(t, web.Namespace),
		ca:      fmt.Sprint(secretOf(t, system, api.CASecretName).UID, status.Generation, status.Phase),
		problem: status.Problem.Reason,
	}
}

func caStatus(t *testing.T) api.CAStatus {
	t.Helper()
	var cm corev1.ConfigMap
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: api.CAStatusName}, &cm))
	return api.ParseCAStatus(cm.Data)
}

// hasStatus waits for a status of the CA.
func hasStatus(t *testing.T, has func(api.CAStatus) bool) {
	t.Helper()
	harness.Eventually(t, func() error {
		if got := caStatus(t); !has(got) {
			return fmt.Errorf("generation %d, next %d, phase %s, waiting for %s, problem %s", got.Generation, got.NextGeneration, got.Phase, got.WaitingFor, got.Problem)
		}
		return nil
	})
}

// stopsAtOnce ends a webhook of a version that does not drain, while no pod is created:
// one that met it would be refused, which is that version's fault (docs/upgrade.md).
func (s *stream) stopsAtOnce(t *testing.T, service *balancer, p *program) {
	t.Helper()
	s.gate.Lock()
	defer s.gate.Unlock()
	service.remove(p.endpoint)
	p.stop()
	harness.Eventually(t, func() error {
		if n := p.endpoint.open.Load(); n > 0 {
			return fmt.Errorf("%d connections to a webhook that ended", n)
		}
		return nil
	})
}

// From the previous version to this one, and back, one program at a time, with pods
// created all the while. Between the steps, programs of both versions work side by side.
// A rotation of the CA that this version begins is finished by the previous one.
func TestUpgradeAndBack(t *testing.T) {
	before, after := previousRelease(t), thisRelease(t)
	before.apply(t)
	signer, rotators := before.signer(t, "1h"), before.rotators(t)
	service := newBalancer(t)
	webhooks := before.webhooks(t, service)
	newNamespace(t, "upgraded")
	web := newService(t, "upgraded", "web")
	isReady(t, web, "Issued")
	isInjected(t, web)
	first := issuedNow(t, web)
	pods := newStream(t, web, 2)

	after.apply(t)
	pods.meanwhile(t)
	newSigner := after.signer(t, "1h") // beside the one that leads
	isReady(t, newService(t, "upgraded", "both-signers"), "Issued")
	signer.stop()
	isReady(t, newService(t, "upgraded", "new-signer"), "Issued")
	newRotators := after.rotators(t)
	require.Len(t, newRotators, 2)
	pods.meanwhile(t)
	rotators.stop()
	newWebhooks := after.webhooks(t, service)
	pods.meanwhile(t) // of both versions
	for _, p := range webhooks {
		pods.stopsAtOnce(t, service, p)
		pods.meanwhile(t)
	}
	isReady(t, newService(t, "upgraded", "upgraded"), "Issued")
	assert.Equal(t, first, issuedNow(t, web), "nothing was issued again")

	next := caStatus(t).Generation + 1
	rotate(t)
	hasStatus(t, func(s api.CAStatus) bool { return s.Phase == api.PhaseWait && s.NextGeneration == next })
	assert.Equal(t, first.leaf, issuedNow(t, web).leaf)

	before.apply(t)
	pods.meanwhile(t)
	oldSigner := before.signer(t, "1s")
	newSigner.stop()
	oldRotators := before.rotators(t)
	newRotators.stop()
	webhooks = before.webhooks(t, service)
	pods.meanwhile(t) // of both versions
	for _, p := range newWebhooks {
		p.stop() // which drains
		pods.meanwhile(t)
	}
	hasStatus(t, func(s api.CAStatus) bool { return s.Generation == next && s.Problem.Reason == "" })
	isReplaced(t, web, first.leaf)
	isReady(t, newService(t, "upgraded", "back"), "Issued")
	pods.all(t)

	after.apply(t) // for what follows
	append(oldRotators, oldSigner, webhooks[0], webhooks[1]).stop()
}

func rotate(t *testing.T) {
	t.Helper()
	var cm corev1.ConfigMap
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: api.CAStatusName}, &cm))
	asked := client.MergeFrom(cm.DeepCopy())
	cm.Annotations = api.RotateRequest{Mode: api.RotateOverlap, Reason: "while two versions work"}.Annotations()
	require.NoError(t, admin.Patch(t.Context(), &cm, asked))
}

// isReplaced waits until the Service has another certificate, which must be signed by a
// root of the bundle of its namespace.
func isReplaced(t *testing.T, web *corev1.Service, former string) {
	t.Helper()
	harness.Eventually(t, func() error {
		roots, err := pki.ParseBundle([]byte(bundleOf(t, web.Namespace)))
		if err != nil {
			return err
		}
		chain, err := pki.ParseCertificates(secretOf(t, web.Namespace, "web-tls").Data[corev1.TLSCertKey])
		if err != nil {
			return err
		}
		if pki.Fingerprint(chain[0]) == former {
			return errors.New("the certificate is still the one of before the rotation")
		}
		for _, root := range roots.Certificates() {
			if chain[0].CheckSignatureFrom(root) == nil {
				return nil
			}
		}
		return errors.New("the certificate is not signed by a root of the bundle")
	})
}
