package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Where nothing runs, every command that would wait for it says so at once.
func TestNothingRuns(t *testing.T) {
	s, ns := newSystem(t), newNamespace(t, "shop", nil)
	s.ca(t, stable())
	makeService(t, ns, "web")
	require.NoError(t, setIssued(t.Context(), ns, "web", hash(0)))
	status := []string{"status", "--system-namespace", s.namespace, "-n", ns}
	renew := []string{"renew", "--system-namespace", s.namespace, "-n", ns, "web"}
	rotate := []string{"rotate-ca", "-n", s.namespace, "--reason", "drill"}

	r := cli(t, status...)
	assert.Zero(t, r.code, r.err)
	assert.Regexp(t, `(?m)^Running +signer, trust, rotator, webhook$`, r.out)

	s.ends(t, "trust")
	r = cli(t, rotate...)
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.err, "no trust rotator runs, so no new CA bundle is distributed: Lease "+s.namespace+"/servingcert-trust: no replica holds it.")
	s.ends(t, "signer", "rotator")
	slice, err := admin.DiscoveryV1().EndpointSlices(s.namespace).Get(t.Context(), "servingcert-webhook", metav1.GetOptions{})
	require.NoError(t, err)
	slice.Endpoints = []discoveryv1.Endpoint{}
	_, err = admin.DiscoveryV1().EndpointSlices(s.namespace).Update(t.Context(), slice, metav1.UpdateOptions{})
	require.NoError(t, err)

	r = cli(t, status...)
	assert.Equal(t, 1, r.code)
	noSigner := "no signer runs, so no certificate is issued or renewed: Lease " + s.namespace + "/servingcert-signer: no replica holds it"
	assert.Regexp(t, `(?m)^Problem +`+noSigner+`$`, r.out)
	assert.Regexp(t, `(?m)^Problem +no pods rotator runs, so pods are neither probed nor restarted: Lease `+s.namespace+`/servingcert-rotator: no replica holds it$`, r.out)
	assert.Regexp(t, `(?m)^Problem +no webhook runs, so new pods of opted-in namespaces are refused or not injected: Service `+s.namespace+`/servingcert-webhook: it has no ready endpoint$`, r.out)
	assert.NotContains(t, r.out, "Running")
	assert.Contains(t, r.out, "web-tls", "and the rest all the same")
	r = cli(t, append(status, "-o", "jsonpath={range .processes[*]}{.name} {.state} {.object}{\"\\n\"}{end}")...)
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.out, "signer away Lease "+s.namespace+"/servingcert-signer\n")

	// the garbage collector deletes the EndpointSlices of a deleted Service
	require.NoError(t, admin.DiscoveryV1().EndpointSlices(s.namespace).Delete(t.Context(), "servingcert-webhook", metav1.DeleteOptions{}))
	r = cli(t, status...)
	assert.Equal(t, 1, r.code)
	assert.Regexp(t, `(?m)^Problem +no webhook runs, so new pods of opted-in namespaces are refused or not injected: Service `+s.namespace+`/servingcert-webhook: it does not exist, or has no EndpointSlice$`, r.out)

	r = cli(t, renew...)
	assert.Equal(t, 1, r.code)
	assert.Equal(t, "kubectl servingcert: "+noSigner+". Nothing was changed; to request it anyway, use --wait=false\n", r.err)
	svc, err := admin.CoreV1().Services(ns).Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	assert.NotContains(t, svc.Annotations, api.AnnotationRenewAfter)
	r = cli(t, rotate...)
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.err, noSigner)
	assert.Empty(t, s.status(t).Annotations)
	assert.Zero(t, cli(t, append(rotate, "--dry-run")...).code, "nothing would be waited for")
	r = cli(t, append(renew, "--wait=false")...)
	assert.Zero(t, r.code, r.err)
	assert.Equal(t, "renewal requested for 1 certificate\n", r.out)
	r = cli(t, append(rotate, "--wait=false")...)
	assert.Zero(t, r.code, r.err)
	r = cli(t, rotate...)
	assert.Equal(t, 1, r.code, "a rotation that was requested before is not followed either")
}

// What ends while a command waits for it is reported too, and is waited for only as long as a new leader takes.
func TestWhatIsWaitedForEnds(t *testing.T) {
	s, ns := newSystem(t), newNamespace(t, "shop", nil)
	s.ca(t, stable())
	makeService(t, ns, "web")
	require.NoError(t, setIssued(t.Context(), ns, "web", hash(0)))
	renewal := start(t, plane.KubeconfigFile(), "renew", "--system-namespace", s.namespace, "-n", ns, "web")
	rotation := start(t, plane.KubeconfigFile(), "rotate-ca", "-n", s.namespace, "--reason", "drill")
	renewAfter(t, ns, "web")
	s.asked(t)
	s.ends(t, "signer")
	said := "  no signer runs, so no certificate is issued or renewed: Lease " + s.namespace + "/servingcert-signer: no replica holds it"
	for c, want := range map[*command]string{
		renewal:  "not renewed:" + said[1:] + ". The requests remain, and are answered when a signer runs\n",
		rotation: "not done:" + said[1:] + ". The rotation continues when one runs. Last status: Stable: generation 1 signs\n",
	} {
		r, err := c.wait()
		require.NoError(t, err)
		assert.Equal(t, 1, r.code)
		assert.Contains(t, r.out, said+"\n")
		assert.Equal(t, "kubectl servingcert: "+want, r.err)
	}
}

// renewed does what a signer does for Service web, and returns what renew said, which succeeds.
func renewed(t *testing.T, c *command, namespace string) result {
	t.Helper()
	renewAfter(t, namespace, "web")
	require.NoError(t, setIssued(t.Context(), namespace, "web", hash(1)))
	r, err := c.wait()
	require.NoError(t, err)
	assert.Zero(t, r.code, r.err)
	return r
}

// Who may not see whether something runs is told so.
func TestWhetherItRunsIsNotSeen(t *testing.T) {
	s, ns := newSystem(t), newNamespace(t, "shop", nil)
	s.ca(t, stable())
	makeService(t, ns, "web")
	require.NoError(t, setIssued(t.Context(), ns, "web", hash(0)))
	kubeconfig := reader(t, s.namespace, ns)
	r := cliAs(t, kubeconfig, "status", "--system-namespace", s.namespace, "-n", ns)
	assert.Zero(t, r.code, r.err)
	assert.Regexp(t, `(?m)^Not seen +signer, trust, rotator: this user may not list Leases in `+s.namespace+`$`, r.out)
	assert.Regexp(t, `(?m)^Not seen +webhook: this user may not list EndpointSlices in `+s.namespace+`$`, r.out)
	assert.NotContains(t, r.out, "Running")

	renewer := "renewer-" + ns
	permit(t, s.namespace, renewer, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}})
	permit(t, ns, renewer, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "list", "patch"}})
	c := start(t, user(t, renewer), "renew", "--system-namespace", s.namespace, "-n", ns, "web")
	r = renewed(t, c, ns)
	assert.Contains(t, r.err, "cannot check whether process signer is running: this user may not list Leases in "+s.namespace+"\n")
}

// A servingcert that is installed in another namespace than the default one is found, if the user may look.
func TestASignerInAnotherNamespace(t *testing.T) {
	newSystem(t)
	ns := newNamespace(t, "shop", nil)
	makeService(t, ns, "web")
	require.NoError(t, setIssued(t.Context(), ns, "web", hash(0)))
	c := start(t, plane.KubeconfigFile(), "renew", "-n", ns, "web")
	r := renewed(t, c, ns)
	assert.Empty(t, r.err)

	renewer := "renewer-" + ns
	permit(t, ns, renewer, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "list", "patch"}})
	empty := newNamespace(t, "empty", nil)
	permit(t, empty, renewer, rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"list"}})
	r = cliAs(t, user(t, renewer), "renew", "-n", ns, "web", "--system-namespace", empty)
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.err, "Lease "+empty+"/servingcert-signer: it does not exist")
	assert.Contains(t, r.err, "; if servingcert is installed in another namespace, name it with --system-namespace. Nothing was changed; to request it anyway, use --wait=false\n")
}
