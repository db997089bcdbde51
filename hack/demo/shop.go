package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/demo/kubelet"
	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
)

const measuring = 2 * time.Millisecond // interval of polling while time is measured

var web = client.ObjectKey{Namespace: "shop", Name: "web"} // the Service, and the Deployment

// shopYAML is the user's manifest: a Namespace, a Service and a Deployment.
//
//go:embed shop.yaml
var shopYAML []byte

// apply applies some of the objects in shop.yaml.
func (d *demo) apply(ctx context.Context, from, to int) error {
	objects, err := deploy.Decode(shopYAML)
	if err != nil {
		return fmt.Errorf("shop.yaml: %w", err)
	}
	return deploy.ApplyObjects(ctx, d.Admin, "demo", objects[from:to])
}

// annotate creates the Namespace and the Service, and waits for the certificate.
func (d *demo) annotate(ctx context.Context) error {
	if err := d.apply(ctx, 0, 2); err != nil {
		return err
	}
	return d.awaitLeaf(ctx, "from the annotated Service to its certificate in Secret shop/web-tls", "")
}

// awaitLeaf waits until the Service is ready, as kubectl wait --for=condition=servingcert.dev/Ready
// service/web does, and its condition names another leaf than old.
func (d *demo) awaitLeaf(ctx context.Context, what, old string) error {
	var ready *metav1.Condition
	took, err := installed.Await(ctx, "Service shop/web", measuring, func(ctx context.Context) error {
		d.service = &corev1.Service{}
		err := d.Admin.Get(ctx, web, d.service)
		ready = api.Condition(d.service, api.ConditionReady)
		if leaf, _ := state.LeafOf(d.service); err == nil && (leaf == old || ready == nil || ready.Status != metav1.ConditionTrue) {
			err = fmt.Errorf("leaf %q, condition %v", leaf, ready)
		}
		return err
	})
	if err != nil {
		return err
	}
	out.Printf("condition %s=%s (%s): %s", ready.Type, ready.Status, ready.Reason, ready.Message)
	out.Printf("%s: %s", what, short(took))
	return nil
}

// createDeployment creates a Deployment, waits for its pod, and prints what the webhook added to it.
func (d *demo) createDeployment(ctx context.Context) error {
	if err := d.apply(ctx, 2, 3); err != nil {
		return err
	}
	pods, deployment := &corev1.PodList{}, &appsv1.Deployment{}
	took, err := installed.Await(ctx, "a pod of Deployment shop/web", measuring, func(ctx context.Context) error {
		err := errors.Join(d.Admin.Get(ctx, web, deployment), d.Admin.List(ctx, pods, client.InNamespace(web.Namespace)))
		if err == nil && len(pods.Items) == 0 {
			err = fmt.Errorf("no pod: %v", deployment.Status.Conditions)
		}
		return err
	})
	if err != nil {
		return err
	}
	d.pod = &pods.Items[0]
	out.Printf("pod %s, created %s after the Deployment, as the API server stored it (+ marks additions):", d.pod.Name, short(took))
	template := excerpt(deployment.Spec.Template.ObjectMeta, deployment.Spec.Template.Spec)
	for _, line := range excerpt(d.pod.ObjectMeta, d.pod.Spec) {
		mark := "+"
		if len(template) > 0 && template[0] == line {
			mark, template = " ", template[1:]
		}
		out.Printf("  %s %s", mark, line)
	}
	if len(template) > 0 || d.pod.Labels[api.LabelInjected] != "true" {
		return fmt.Errorf("the pod was not injected, or lacks lines of its template: %q", template)
	}
	return nil
}

// excerpt returns the lines of YAML of the fields that the webhook may change.
func excerpt(meta metav1.ObjectMeta, spec corev1.PodSpec) []string {
	pod := corev1.Pod{Spec: corev1.PodSpec{Volumes: spec.Volumes}}
	pod.Annotations, pod.Labels = meta.Annotations, meta.Labels
	delete(pod.Labels, "pod-template-hash") // the ReplicaSet's
	for _, c := range spec.Containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c.Name, Command: c.Command, Args: c.Args, Env: c.Env, VolumeMounts: c.VolumeMounts})
	}
	text, _ := yaml.Marshal(pod) // never fails
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(string(text)), "\n"), func(line string) bool {
		return strings.HasSuffix(line, ": {}")
	})
}

// startPod projects the pod's volume, and keeps it current, and starts the container. The pod's address is
// the Service's ClusterIP, which is an address of the host, as there is no kube-proxy.
func (d *demo) startPod(ctx context.Context) error {
	c, volumes, root := d.pod.Spec.Containers[0], d.pod.Spec.Volumes, d.Path("container")
	if len(c.VolumeMounts) != 1 || len(volumes) != 1 {
		return fmt.Errorf("the pod has %d volumes, want the injected one", len(volumes))
	}
	if err := d.Mount(ctx, web.Namespace, volumes[0], root+c.VolumeMounts[0].MountPath); err != nil {
		return err
	}
	argv, env, err := kubelet.Command(c, map[string]string{"status.podIP": d.service.Spec.ClusterIP})
	if err != nil {
		return err
	}
	d.server = &process.Program{
		Label: "server", Path: d.Path("bin", argv[0]), Args: argv[1:], Env: append(env, "CONTAINER_ROOT="+root),
		Once: true, NoHealth: true, Log: process.Log{File: d.Path("logs", "server.log")},
	}
	if err := d.server.Run(); err != nil {
		return err
	}
	d.AtEnd(func() error { d.server.Kill(); return nil })
	d.watch(d.server)
	out.Printf("process %d: %s", d.server.PID(), strings.Join(argv, " "))
	return nil
}

// address returns the pod's address and the target port, as kube-proxy would.
func (d *demo) address() string {
	return net.JoinHostPort(d.service.Spec.ClusterIP, d.service.Spec.Ports[0].TargetPort.String())
}

// fetch requests the page as a client that trusts only the namespace's CA bundle, once the server
// presents the leaf that the Service's condition names.
func (d *demo) fetch(ctx context.Context) error {
	var pid int
	old := d.leaf
	if err := installed.Until(ctx, "the page", func(ctx context.Context) (err error) {
		bundle := &corev1.ConfigMap{}
		if err := d.Admin.Get(ctx, client.ObjectKey{Namespace: web.Namespace, Name: api.BundleName}, bundle); err != nil {
			return err
		}
		pid, err = d.request(bundle.Data[api.BundleKey])
		if leaf, _ := state.LeafOf(d.service); err == nil && leaf != pki.Fingerprint(d.leaf) {
			err = fmt.Errorf("the server presents leaf %s, want %s", pki.Fingerprint(d.leaf), leaf)
		}
		return err
	}); err != nil {
		return err
	}
	out.Printf("GET https://web.shop.svc/: hello from process %d", pid)
	out.Printf("  names   %s", strings.Join(d.leaf.DNSNames, ", "))
	out.Printf("  serial  %x, issuer %s", d.leaf.SerialNumber, d.leaf.Issuer)
	out.Printf("  valid   %s to %s, will be renewed at %s", d.leaf.NotBefore, d.leaf.NotAfter, pki.RenewAt(d.leaf).Round(time.Second))
	if pid != d.server.PID() {
		return fmt.Errorf("process %d answered, want %d", pid, d.server.PID())
	}
	if old != nil && string(old.RawSubjectPublicKeyInfo) == string(d.leaf.RawSubjectPublicKeyInfo) {
		return errors.New("the renewed certificate has the old key")
	}
	_, err := d.request("")
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); !ok {
		return errors.Join(errors.New("a client without the bundle did not reject the certificate as signed by an unknown authority"), err)
	}
	out.Printf("without the bundle: %v", errors.Unwrap(err))
	return nil
}

// request requests the page as a client that trusts these roots, in PEM. It returns the ID of the process
// that answered, and stores its leaf. It dials the address to which DNS and kube-proxy would lead.
func (d *demo) request(roots string) (pid int, err error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(roots))
	httpClient := http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, d.address())
		},
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
	}}
	response, err := httpClient.Get("https://web.shop.svc/")
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }() // already read
	d.leaf = response.TLS.PeerCertificates[0]
	_, err = fmt.Fscanf(response.Body, "hello from process %d", &pid)
	return pid, err
}

// renew requests a new certificate, and waits for it.
func (d *demo) renew(ctx context.Context) error {
	at := pki.IssuedAt(d.leaf).Add(time.Second)
	process.Sleep(ctx, time.Until(at)) // certificates have whole seconds: the renewed one must be older
	out.Printf("kubectl -n shop annotate service web %s=%s", api.AnnotationRenewAfter, at.Format(time.RFC3339))
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationRenewAfter, at.Format(time.RFC3339))
	if err := d.Admin.Patch(ctx, d.service, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	return d.awaitLeaf(ctx, "from the request for a renewal to the new certificate", pki.Fingerprint(d.leaf))
}
