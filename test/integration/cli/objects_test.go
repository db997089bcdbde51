package cli

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

func TestNothingInstalled(t *testing.T) {
	s := newSystem(t)
	want := "kubectl servingcert: namespace \"" + s.namespace + "\" has no ConfigMap servingcert-ca-status: servingcert is not installed there, or its signer has not started yet\n"
	for _, args := range [][]string{
		{"status", "--system-namespace", s.namespace},
		{"rotate-ca", "-n", s.namespace, "--reason", "x"},
		{"rotate-ca", "-n", s.namespace, "--proceed", "2"},
	} {
		r := cli(t, args...)
		assert.Equal(t, 1, r.code, args)
		assert.Equal(t, want, r.err, args)
		assert.Empty(t, r.out)
	}
}

func TestStatus(t *testing.T) {
	s, ns, ca := newSystem(t), newNamespace(t, "shop", nil), newCA(t)
	s.ca(t, with(stable(), api.CAPhase, api.PhaseWait, api.CANextGeneration, "2", api.CAWhy, "requested: drill",
		api.CAWaitingFor, "1 of 3 targets hold the new root", api.CARotation, "overlap:drill", api.CARotationOutcome, "generation 2 was made and does not sign yet",
		api.CAWarning, "CAImportInvalid: Secret servingcert-ca-import is not imported: x\nSuccessionWaits: y"))
	require.NoError(t, s.publish(t.Context(), api.TrustStatusName, map[string]string{
		api.TrustBundleHash: strings.Repeat("ab", 32), api.TrustTargets: "3", api.TrustHolding: "1", api.TrustPending: "1", api.TrustRefusing: "1",
		api.TrustNotHolding: "ConfigMap shop/x: Forbidden: no\nConfigMap shop/y: Pending: not yet",
		api.TrustSince:      "2026-03-01T12:00:00Z", api.TrustLate: "1", api.TrustGrace: "1", api.TrustNamespaces: "shop"}))
	web := makeService(t, ns, "web")
	issued := issueBy(t, ca, web)
	makeService(t, ns, "new")
	for name, reason := range map[string]string{"theirs": api.ReasonExternal, "late": api.ReasonRenewalOverdue} {
		svc := makeService(t, ns, name)
		svc.Annotations[api.AnnotationIssuer] = string(api.IssuerExternal)
		_, err := admin.CoreV1().Services(ns).Update(t.Context(), svc, metav1.UpdateOptions{})
		require.NoError(t, err)
		require.NoError(t, writeReady(t.Context(), ns, name, metav1.ConditionTrue, reason, "of another issuer", state.Ready{Secret: name + "-tls", Leaf: strings.Repeat("ab", 32), External: true}))
	}
	makeService(t, ns, "wrong")
	require.NoError(t, setReady(t.Context(), ns, "wrong", metav1.ConditionFalse, "InvalidAnnotation", "servingcert.dev/duration: x"))
	_, err := admin.CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "plain"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}}, metav1.CreateOptions{})
	require.NoError(t, err)

	r := cli(t, "status", "--system-namespace", s.namespace, "-n", ns)
	assert.Zero(t, r.code, r.err)
	for _, want := range []string{
		`CA +generation 1 signs, until 2028-03-01T12:00:00Z`,
		`Phase +Wait, since 2026-03-01T12:00:00Z \(\S+\)`,
		` +generation 2 signs next`,
		` +why: requested: drill`,
		` +waiting for: 1 of 3 targets hold the new root`,
		`Rotation +"drill" \(overlap\): generation 2 was made and does not sign yet`,
		`Warning +CAImportInvalid: Secret servingcert-ca-import is not imported: x`,
		`Warning +SuccessionWaits: y`,
		`Trust +1 of 3 targets hold the bundle, 1 not yet, 1 refuse it`,
		` +bundle abababababab`,
		` +a new generation waits only for a limited time for 1 of the others, in namespaces shop`,
		` +a new generation does not wait for 1 of the others, which requested the bundle after 2026-03-01T12:00:00Z`,
		` +ConfigMap shop/x: Forbidden: no`,
		`NAMESPACE +SERVICE +READY +REASON +SERVING +SECRET +LEAF +NOT AFTER +RENEW AT`,
		ns + ` +web +True +Issued +True +web-tls +` + pki.Fingerprint(issued.Leaf)[:12] + ` +` + issued.Leaf.NotAfter.Format(time.RFC3339) + ` +` + pki.RenewAt(issued.Leaf).UTC().Format(time.RFC3339),
		ns + ` +new +- +NotOptedIn +- +new-tls +- +- +-`,
		ns + ` +theirs +True +External +True +theirs-tls +abababababab +- +-`,
		ns + ` +late +True +RenewalOverdue +True +late-tls +abababababab +- +-`,
		`Namespace ` + ns + ` is not labelled, so nothing is issued in it\. To opt in: kubectl label namespace ` + ns + ` servingcert.dev/inject=enabled`,
		ns + ` +wrong +False +InvalidAnnotation +- +wrong-tls +- +- +-`,
	} {
		assert.Regexp(t, `(?m)^`+want+`$`, r.out)
	}
	assert.NotContains(t, r.out, "plain")

	t.Run("one Service", func(t *testing.T) {
		r := cli(t, "status", "--system-namespace", s.namespace, "-n", ns, "wrong")
		assert.Zero(t, r.code, r.err)
		assert.Contains(t, r.out, "\nservingcert.dev/duration: x\n", "with what the condition says")
		assert.NotContains(t, r.out, "web-tls")
		setServing(t, ns, "web", metav1.ConditionFalse, api.ServingForeign, "another certificate is served by Deployment web", time.Now())
		r = cli(t, "status", "--system-namespace", s.namespace, "-n", ns, "web")
		assert.Regexp(t, ns+` +web +True +Issued +Foreign +web-tls`, r.out)
		assert.Contains(t, r.out, "\nanother certificate is served by Deployment web\n")
		setServing(t, ns, "web", metav1.ConditionTrue, api.ServingCurrent, "every pod serves it", time.Now())
		r = cli(t, "status", "--system-namespace", s.namespace, "-n", ns, "plain")
		assert.Equal(t, 1, r.code)
		assert.Contains(t, r.err, `has no Service "plain" that requests a certificate`)
	})
	t.Run("for programs", func(t *testing.T) {
		r := cli(t, "status", "--system-namespace", s.namespace, "-A", "-o", "json")
		var got struct {
			CA       map[string]any
			Trust    map[string]any
			Services []map[string]any
		}
		require.NoError(t, json.Unmarshal([]byte(r.out), &got))
		assert.Equal(t, "Wait", got.CA["phase"])
		assert.EqualValues(t, 2, got.CA["nextGeneration"])
		assert.EqualValues(t, 1, got.Trust["refusing"])
		assert.Contains(t, r.out, `"reason": "Current"`)
		assert.Equal(t, 2, strings.Count(r.out, `"external": true`))
		assert.NotContains(t, r.out, "PRIVATE KEY")
		r = cli(t, "status", "--system-namespace", s.namespace, "-n", ns, "-o", "yaml", "web")
		assert.Contains(t, r.out, "renewAt: \""+pki.RenewAt(issued.Leaf).UTC().Format(time.RFC3339))
	})
	t.Run("a user who may not read Secrets", func(t *testing.T) {
		r := cliAs(t, reader(t, s.namespace, ns), "status", "--system-namespace", s.namespace, "-n", ns)
		assert.Zero(t, r.code, r.err)
		assert.Regexp(t, ns+` +web +True +Issued +True +web-tls +[0-9a-f]{12} +- +-`, r.out)
	})
	t.Run("a user who may read only the namespace", func(t *testing.T) {
		r := cliAs(t, reader(t, ns), "status", "--system-namespace", s.namespace, "-n", ns)
		assert.Zero(t, r.code, r.err)
		assert.Regexp(t, `(?m)^CA +not shown: this user may not read ConfigMap `+s.namespace+`/servingcert-ca-status$`, r.out)
		assert.NotContains(t, r.out, "Trust")
		assert.Regexp(t, ns+` +web +True +Issued +True +web-tls +[0-9a-f]{12} +- +-`, r.out)
		assert.Regexp(t, ns+` +new +- +- +- +new-tls`, r.out, "whether the namespace is opted in is not known")
	})
	t.Run("a CA with a problem", func(t *testing.T) {
		s.ca(t, with(stable(), api.CAProblem, "CALost: Secret servingcert-ca is missing"))
		r := cli(t, "status", "--system-namespace", s.namespace, "-n", ns)
		assert.Equal(t, 1, r.code)
		assert.Regexp(t, `(?m)^Problem +CALost: Secret servingcert-ca is missing$`, r.out)
		assert.Contains(t, r.out, "web-tls", "and the rest all the same")
	})
}

// reader returns the kubeconfig of a user who may read what is public.
func reader(t *testing.T, namespaces ...string) string {
	t.Helper()
	name := "reader-" + namespaces[0]
	for _, ns := range namespaces {
		permit(t, ns, name, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps", "services"}, Verbs: []string{"get", "list"}})
	}
	return user(t, name)
}

// user returns the kubeconfig of a user, who may do nothing.
func user(t *testing.T, name string) string {
	t.Helper()
	cfg, err := plane.UserConfig(name)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, controlplane.WriteKubeconfig(path, cfg))
	return path
}

// permit allows a user something in a namespace, and returns once the API server, which learns of
// roles by watches, does.
func permit(t *testing.T, namespace, user string, rule rbacv1.PolicyRule) {
	t.Helper()
	_, err := admin.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{rule},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	may := &authorizationv1.ResourceAttributes{Namespace: namespace, Group: rule.APIGroups[0], Resource: rule.Resources[0], Verb: rule.Verbs[0]}
	if len(rule.ResourceNames) > 0 {
		may.Name = rule.ResourceNames[0]
	}
	harness.Eventually(t, func() error {
		review, err := admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: may},
		}, metav1.CreateOptions{})
		if err == nil && !review.Status.Allowed {
			err = fmt.Errorf("%s may not yet %s %s in namespace %s", user, may.Verb, may.Resource, namespace)
		}
		return err
	})
}

func TestRenew(t *testing.T) {
	s, ns := newSystem(t), newNamespace(t, "shop", nil)
	for i, name := range []string{"web", "api"} {
		makeService(t, ns, name)
		require.NoError(t, setIssued(t.Context(), ns, name, hash(i)))
	}
	begin := time.Now()
	c := start(t, plane.KubeconfigFile(), "renew", "--system-namespace", s.namespace, "-n", ns, "--all")
	for i, name := range []string{"web", "api"} {
		after := renewAfter(t, ns, name)
		assert.False(t, after.Before(begin.Truncate(time.Second).Add(time.Second)), "later than whatever was issued in this second: %s, %s", begin, after)
		assert.Zero(t, after.Nanosecond())
		require.NoError(t, setIssued(t.Context(), ns, name, hash(100+i)))
	}
	r, err := c.wait()
	require.NoError(t, err)
	assert.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, ns+"/web has a new certificate in Secret web-tls: leaf 000000000000\n")
	assert.Contains(t, r.out, ns+"/api has a new certificate in Secret api-tls: leaf 000000000000\n")

	t.Run("one that asks for nothing", func(t *testing.T) {
		r := cli(t, "renew", "-n", ns, "missing")
		assert.Equal(t, 1, r.code)
		assert.Contains(t, r.err, `no Service "missing" requests a certificate in namespace "`+ns+`"`)
		r = cli(t, "renew", "-n", newNamespace(t, "empty", nil), "--all")
		assert.Equal(t, 1, r.code)
		assert.Contains(t, r.err, "no Service requests a certificate that servingcert renews in namespace")
	})
	t.Run("no CA that could sign", func(t *testing.T) {
		s, ns := newSystem(t), newNamespace(t, "shop", map[string]string{api.LabelInject: api.InjectEnabled})
		makeService(t, ns, "web")
		s.ca(t, with(stable(), api.CAProblem, "CALost: Secret servingcert-ca is missing"))
		want := "kubectl servingcert: nothing can be renewed: CALost: Secret servingcert-ca is missing\n"
		r := cli(t, "renew", "-n", ns, "web", "--system-namespace", s.namespace)
		assert.Equal(t, 1, r.code)
		assert.Equal(t, want, r.err)
		s.ca(t, stable()) // who may not read it learns it from the Service
		require.NoError(t, setReady(t.Context(), ns, "web", metav1.ConditionFalse, "CALost", "Secret servingcert-ca is missing"))
		assert.Equal(t, want, cli(t, "renew", "-n", ns, "web", "--system-namespace", s.namespace).err)
	})
}

// renewAfter waits until a Service is to be renewed and returns after when.
func renewAfter(t *testing.T, namespace, name string) time.Time {
	t.Helper()
	var after time.Time
	require.Eventually(t, func() bool {
		svc, err := admin.CoreV1().Services(namespace).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		after, err = time.Parse(time.RFC3339, svc.Annotations[api.AnnotationRenewAfter])
		return err == nil
	}, patience, 20*time.Millisecond)
	return after
}

func TestVerify(t *testing.T) {
	s, ns, ca := newSystem(t), newNamespace(t, "shop", nil), newCA(t)
	s.ca(t, with(stable(), api.CABundleHash, ca.Bundle.Hash()))
	web := makeService(t, ns, "web")
	issued := issueBy(t, ca, web)
	verify := func(more ...string) result {
		return cli(t, append([]string{"verify", "--system-namespace", s.namespace, "-n", ns, "web"}, more...)...)
	}
	r := verify()
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.out, "FAILED  ConfigMap "+ns+"/servingcert-ca.crt: missing")

	publishBundle(t, ns, ca.Bundle)
	r = verify()
	assert.Zero(t, r.code, r.out+r.err)
	assert.Equal(t, 5, strings.Count(r.out, "ok      "), r.out)
	assert.Contains(t, r.out, "ok      pods of Service "+ns+"/web: every pod serves it\n")
	assert.Contains(t, r.out, "verifies for web."+ns+".svc, web."+ns+".svc.cluster.local until ")

	address := serve(t, issued.CertPEM, issued.KeyPEM)
	r = verify("--address", address)
	assert.Zero(t, r.code, r.out+r.err)
	assert.Contains(t, r.out, "ok      "+address+": leaf "+pki.Fingerprint(issued.Leaf)[:12]+", as in the condition\n")

	t.Run("an old certificate is served", func(t *testing.T) {
		require.NoError(t, admin.CoreV1().Secrets(ns).Delete(t.Context(), "web-tls", metav1.DeleteOptions{}))
		issueBy(t, ca, web)
		r := verify("--address", address)
		assert.Equal(t, 1, r.code)
		assert.Contains(t, r.out, "FAILED  "+address+": leaf "+pki.Fingerprint(issued.Leaf)[:12]+" (issued ")
		assert.Equal(t, 1, strings.Count(r.out, "FAILED"), "it verifies all the same: %s", r.out)
	})
	for _, reason := range []string{api.ServingNoPort, api.ServingNoConsumers} {
		setServing(t, ns, "web", metav1.ConditionFalse, reason, "port https has no endpoint", time.Now())
		r := verify()
		assert.Equal(t, 1, r.code, reason)
		assert.Regexp(t, `FAILED  pods of Service `+ns+`/web: .*port https has no endpoint`, r.out)
	}
	setServing(t, ns, "web", metav1.ConditionTrue, api.ServingCurrent, "every pod serves it", time.Now())
	t.Run("a user who may not read Secrets", func(t *testing.T) {
		r := cliAs(t, reader(t, s.namespace, ns), "verify", "--system-namespace", s.namespace, "-n", ns, "web")
		assert.Zero(t, r.code, r.out+r.err)
		assert.Contains(t, r.out, "unknown Secret "+ns+"/web-tls: cannot be read: ")
		assert.Contains(t, r.out, "unknown pods of Service "+ns+"/web: cannot check whether a rotator runs, so this may be out of date: this user may not list Leases in "+s.namespace+"\n")
	})
	t.Run("no rotator runs", func(t *testing.T) {
		s.ends(t, "rotator")
		r := verify()
		assert.Equal(t, 1, r.code, r.out+r.err)
		assert.Contains(t, r.out, "notSeen pods of Service "+ns+"/web: no pods rotator runs, so pods are neither probed nor restarted: Lease "+s.namespace+"/servingcert-rotator: no replica holds it; its last report may be out of date: ")
		assert.NotContains(t, r.out, "ok      pods")
	})
}

// serve listens on loopback and does a handshake with everybody.
func serve(t *testing.T, cert, key []byte) string {
	t.Helper()
	pair, err := tls.X509KeyPair(cert, key)
	require.NoError(t, err)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	require.NoError(t, err)
	return accept(t, listener)
}

// accept does a handshake with everybody, until the test ends.
func accept(t *testing.T, listener net.Listener) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.(*tls.Conn).HandshakeContext(ctx) // clients come and go
			}()
		}
	}()
	return listener.Addr().String()
}
