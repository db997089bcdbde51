package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/servingcert/servingcert/hack/process"
)

// TestControlPlane checks the guarantees of the package on one control plane, as a start takes seconds.
func TestControlPlane(t *testing.T) {
	ctx := t.Context()
	cp, err := Start(ctx, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = cp.Stop() })
	client := kubernetes.NewForConfigOrDie(cp.AdminConfig())

	t.Run("a pod can be created right after its namespace", func(t *testing.T) {
		makeNamespace(t, client, "shop")
		pod, err := client.CoreV1().Pods("shop").Create(ctx, newPod("web"), metav1.CreateOptions{})
		require.NoError(t, err)
		require.Equal(t, "default", pod.Spec.ServiceAccountName, "set by the ServiceAccount admission plugin")
	})
	t.Run("a ServiceAccount has exactly the permissions of its RBAC rules", func(t *testing.T) {
		testServiceAccount(t, cp, client)
	})
	t.Run("a webhook is called through its Service", func(t *testing.T) {
		testWebhook(t, cp, client)
	})
	t.Run("the API server restarts with its data", func(t *testing.T) {
		testRestart(t, cp, client)
	})

	pids, dir := cp.PIDs(), cp.dir
	require.Len(t, pids, 2)
	require.NoError(t, cp.Stop())
	require.NoError(t, cp.Stop(), "a second time")
	for name, pid := range pids {
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "%s still runs", name)
	}
	require.NoDirExists(t, dir)
}

// kube-apiserver connects to etcd at the address from EtcdVia, and etcd restarts with its data or
// with a copy.
func TestEtcd(t *testing.T) {
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "etcd")
	var carried atomic.Int64
	cp, err := Start(ctx, Options{EtcdDir: dir, EtcdVia: func(address string) (string, error) { return forward(t, address, &carried) }})
	require.NoError(t, err)
	t.Cleanup(func() { _ = cp.Stop() })
	require.Positive(t, carried.Load(), "connections")
	require.Equal(t, dir, cp.EtcdDir())
	client := kubernetes.NewForConfigOrDie(cp.AdminConfig())
	get := func(name string) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // without etcd, kube-apiserver takes a minute to answer
		defer cancel()
		_, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		return err
	}

	makeNamespace(t, client, "before")
	require.ErrorContains(t, cp.StartEtcd(ctx), "it is already running")
	require.ErrorContains(t, cp.StartControllerManager(ctx), "Options.ControllerManager is not set")
	cp.StopEtcd()
	require.NotContains(t, cp.PIDs(), Etcd)
	require.Error(t, get("before"))
	copied := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	require.NoError(t, cp.StartEtcd(ctx))
	require.Eventually(t, func() bool { return get("before") == nil }, process.Soon, 50*time.Millisecond)

	makeNamespace(t, client, "after")
	cp.StopAPIServer()
	cp.StopEtcd()
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.CopyFS(dir, os.DirFS(copied)))
	require.NoError(t, os.Chmod(dir, 0o700)) //nolint:gosec // a directory
	require.NoError(t, cp.StartEtcd(ctx))
	require.NoError(t, cp.StartAPIServer(ctx))
	require.NoError(t, get("before"))
	require.True(t, apierrors.IsNotFound(get("after")), "created after the copy")

	require.NoError(t, cp.Stop())
	require.NoDirExists(t, dir)
}

// forward forwards connections to an address, counts them, and returns its own address.
func forward(t *testing.T, to string, count *atomic.Int64) (string, error) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp4", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			count.Add(1)
			for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				}()
			}
		}
	}()
	return l.Addr().String(), nil
}

func TestControllerManager(t *testing.T) {
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "given")
	cp, err := Start(ctx, Options{ControllerManager: true, Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { _ = cp.Stop() })
	client := kubernetes.NewForConfigOrDie(cp.AdminConfig())

	makeNamespace(t, client, "shop")
	two := int32(2)
	labels := map[string]string{"app": "web"}
	_, err = client.AppsV1().Deployments("shop").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &two,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: newPod("web").Spec},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	pods := func() int {
		list, err := client.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		return len(list.Items)
	}
	require.Eventually(t, func() bool { return pods() == 2 }, process.Soon, 50*time.Millisecond)

	require.ErrorContains(t, cp.StartControllerManager(ctx), "it is already running")
	cp.StopControllerManager()
	require.NotContains(t, cp.PIDs(), KubeControllerManager)
	require.NoError(t, client.AppsV1().Deployments("shop").Delete(ctx, "web", metav1.DeleteOptions{}))
	require.Equal(t, 2, pods(), "no garbage collection")
	require.NoError(t, cp.StartControllerManager(ctx))
	require.Eventually(t, func() bool { return pods() == 0 }, process.Soon, 50*time.Millisecond, "garbage collection")

	require.NoError(t, client.CoreV1().Namespaces().Delete(ctx, "shop", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		_, err := client.CoreV1().Namespaces().Get(ctx, "shop", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, process.Soon, 50*time.Millisecond, "the namespace is removed")

	require.Len(t, cp.PIDs(), 3)
	require.NoError(t, cp.Stop())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "a given directory is emptied, not removed")
}

func TestStartErrors(t *testing.T) {
	t.Run("directory in use", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600))
		_, err := Start(t.Context(), Options{Dir: dir})
		require.ErrorContains(t, err, "is not empty: it contains mine")
		require.FileExists(t, filepath.Join(dir, "mine"))
	})
	t.Run("component that does not start", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "given")
		_, err := Start(t.Context(), Options{Dir: dir, ExtraAPIServerArgs: []string{"--no-such-flag"}})
		require.ErrorContains(t, err, "the kube-apiserver ended: exit status 1; the end of its log:\n")
		require.ErrorContains(t, err, "unknown flag: --no-such-flag")
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := Start(ctx, Options{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func testServiceAccount(t *testing.T, cp *ControlPlane, admin kubernetes.Interface) {
	ctx := t.Context()
	_, err := cp.ServiceAccountConfig(ctx, "default", "reader")
	require.ErrorContains(t, err, "token of ServiceAccount default/reader")

	_, err = admin.CoreV1().ServiceAccounts("default").Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.RbacV1().Roles("default").Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"list"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admin.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "reader", Namespace: "default"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	cfg, err := cp.ServiceAccountConfig(ctx, "default", "reader")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "made", "kubeconfig")
	require.NoError(t, WriteKubeconfig(path, cfg))
	cfg, err = clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	reader := kubernetes.NewForConfigOrDie(cfg)
	require.Eventually(t, func() bool { // the authorizer's informers lag behind
		_, err := reader.CoreV1().Services("default").List(ctx, metav1.ListOptions{})
		return err == nil
	}, process.Soon, 20*time.Millisecond)
	_, err = reader.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "got %v", err)

	user, err := cp.UserConfig("jane", "system:masters")
	require.NoError(t, err)
	_, err = kubernetes.NewForConfigOrDie(user).CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
}

// testWebhook checks that kube-apiserver dials the ClusterIP of a webhook's Service and verifies
// the name of the Service, without kube-proxy.
func testWebhook(t *testing.T, cp *ControlPlane, client kubernetes.Interface) {
	ctx := t.Context()
	makeNamespace(t, client, "hooks")
	const port = 8443
	svc, err := client.CoreV1().Services("hooks").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "labeler"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	serveLabeler(t, cp, net.JoinHostPort(svc.Spec.ClusterIP, fmt.Sprint(port)), "labeler.hooks.svc")

	none, fail := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
	servicePort, path := int32(port), "/mutate"
	_, err = client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx,
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "labeler"},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: "labeler.example.com",
				ClientConfig: admissionregistrationv1.WebhookClientConfig{
					Service:  &admissionregistrationv1.ServiceReference{Namespace: "hooks", Name: "labeler", Port: &servicePort, Path: &path},
					CABundle: cp.pki.CAPEM,
				},
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				}},
				SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
			}},
		}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.EventuallyWithT(t, func(c *assert.CollectT) { // the informer of webhooks lags behind
		cm, err := client.CoreV1().ConfigMaps("hooks").Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "any-"}}, metav1.CreateOptions{})
		require.NoError(c, err)
		require.Equal(c, "true", cm.Labels["called"])
	}, process.Soon, 50*time.Millisecond)
	require.NoError(t, client.AdmissionregistrationV1().MutatingWebhookConfigurations().
		Delete(ctx, "labeler", metav1.DeleteOptions{}))
}

// serveLabeler runs an HTTPS server at addr, with a certificate for name, that adds label
// called=true to each reviewed object.
func serveLabeler(t *testing.T, cp *ControlPlane, addr, name string) {
	t.Helper()
	listener, err := net.Listen("tcp", addr)
	require.NoError(t, err, "a ClusterIP is an address of this host")
	pair, err := cp.pki.Issue("labeler", &x509.Certificate{
		DNSNames: []string{name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	require.NoError(t, err)
	cert, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var review admissionv1.AdmissionReview
		if json.Unmarshal(body, &review) != nil || review.Request == nil {
			http.Error(w, "no AdmissionReview", http.StatusBadRequest)
			return
		}
		patchType := admissionv1.PatchTypeJSONPatch
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Allowed: true, PatchType: &patchType,
			Patch: []byte(`[{"op":"add","path":"/metadata/labels","value":{"called":"true"}}]`),
		}
		_ = json.NewEncoder(w).Encode(review)
	}))
	server.Listener.Close()
	server.Listener = listener
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	server.StartTLS()
	t.Cleanup(server.Close)
}

func testRestart(t *testing.T, cp *ControlPlane, client kubernetes.Interface) {
	ctx := t.Context()
	makeNamespace(t, client, "before")
	require.ErrorContains(t, cp.StartAPIServer(ctx), "it is already running")
	cp.StopAPIServer()
	cp.StopAPIServer() // nothing to do
	_, err := client.CoreV1().Namespaces().Get(ctx, "before", metav1.GetOptions{})
	require.Error(t, err)
	require.NotContains(t, cp.PIDs(), KubeAPIServer)

	require.NoError(t, cp.StartAPIServer(ctx))
	_, err = client.CoreV1().Namespaces().Get(ctx, "before", metav1.GetOptions{})
	require.NoError(t, err)
	makeNamespace(t, client, "after")
	_, err = client.CoreV1().Pods("after").Create(ctx, newPod("web"), metav1.CreateOptions{})
	require.NoError(t, err, "default ServiceAccounts are created again")
}

func makeNamespace(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
	require.NoError(t, err)
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}}},
	}
}

// The audit log contains the requests of the listed users, including rejected ones, and a watch
// as soon as it has started.
func TestAuditEvents(t *testing.T) {
	ctx := t.Context()
	cp, err := Start(ctx, Options{AuditUsers: []string{"alice"}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = cp.Stop() })
	cfg, err := cp.UserConfig("alice", "system:masters")
	require.NoError(t, err)
	alice := kubernetes.NewForConfigOrDie(cfg)
	cfg, err = cp.UserConfig("alice")
	require.NoError(t, err)
	noRights := kubernetes.NewForConfigOrDie(cfg)

	makeNamespace(t, alice, "shop")
	_, err = noRights.CoreV1().Secrets("shop").Get(ctx, "web", metav1.GetOptions{})
	require.True(t, apierrors.IsForbidden(err))
	watch, err := alice.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=web"})
	require.NoError(t, err)
	defer watch.Stop()
	_, err = kubernetes.NewForConfigOrDie(cp.AdminConfig()).CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	require.NoError(t, err)

	var got []string
	require.Eventually(t, func() bool {
		events, err := cp.AuditEvents()
		require.NoError(t, err)
		got = nil
		for _, e := range events {
			require.Equal(t, "alice", e.User.Username)
			got = append(got, fmt.Sprintf("%s %s %s/%s %d", e.Verb, e.Object.Resource, e.Object.Namespace, e.Object.Name, e.Status.Code))
		}
		return len(got) == 3
	}, process.Soon, 20*time.Millisecond, "%q", got)
	require.Equal(t, []string{"create namespaces /shop 201", "get secrets shop/web 403", "watch pods /web 200"}, got)

	unaudited := &ControlPlane{}
	_, err = unaudited.AuditEvents()
	require.ErrorContains(t, err, "AuditUsers is empty")
}
