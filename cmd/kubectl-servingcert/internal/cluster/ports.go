package cluster

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/pages"
	"github.com/servingcert/servingcert/cmd/kubectl-servingcert/internal/status"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/rotator/probe"
	"github.com/servingcert/servingcert/pkg/rotator/probe/dial"
)

// maxDials is the maximum number of concurrent dials of ports.
const maxDials = 32

// Dials are how ports of pods are dialled.
type Dials struct {
	// Direct: at the address of the pod, which has to be reachable. Otherwise the API server forwards
	// the port, to the loopback of the pod.
	Direct        bool
	Timeout       time.Duration // of each
	ClusterDomain string
	System        string // namespace of servingcert
}

// ServedPorts dials the ports of all ready pods of a namespace ("": of all) to which Services lead.
func (c *Cluster) ServedPorts(ctx context.Context, cfg *rest.Config, namespace string, how Dials) (report status.PortReport, err error) {
	var services []corev1.Service
	var all []corev1.Pod
	if err := c.eachService(ctx, namespace, "", func(svc *corev1.Service) { services = append(services, *svc) }); err != nil {
		return report, err
	}
	err = pages.Each(ctx, c.Client.CoreV1().Pods(namespace), metav1.ListOptions{}, func(pod *corev1.Pod) { all = append(all, *pod) })
	if err != nil {
		return report, fmt.Errorf("list pods: %w", err)
	}
	ports, unseen := status.PodPorts(services, all, how.ClusterDomain)
	secrets, err := c.mountedSecrets(ctx, ports)
	if err != nil {
		return report, err
	}
	roots, err := c.rootsOf(ctx, ports)
	if err != nil {
		return report, err
	}
	var strangers Strangers
	if slices.ContainsFunc(ports, func(p status.PodPort) bool { return p.Guard != nil }) {
		if strangers, err = c.Strangers(ctx, how.System); err != nil {
			return report, err
		}
	}
	forward, now := forwarder{cfg, c.Client}, time.Now()
	served := make([]status.ServedPort, len(ports))
	errs := make([]error, len(ports))
	atOnce(maxDials, len(ports), func(i int) {
		p := ports[i]
		open := func(ctx context.Context) (net.Conn, error) { return forward.open(ctx, p.Namespace, p.Pod, int(p.Port)) }
		if how.Direct {
			open = dial.To(net.JoinHostPort(p.Address, strconv.Itoa(int(p.Port))))
		}
		outcome := dial.Client{Proxied: p.Proxied}.By(ctx, open, p.Host, p.Protocol, how.Timeout)
		served[i], errs[i] = p.Served(outcome, secrets[p.Namespace], roots[p.Namespace], now), outcome.Err
		if p.Guard != nil {
			served[i].Tried(strangers.Try(ctx, open, p.Host, p.Protocol, how.Timeout, *p.Guard))
		}
	})
	answers := func(s status.ServedPort) bool { return s.Serves == probe.TLS || s.Serves == probe.Plaintext }
	if len(served) > 0 && !slices.ContainsFunc(served, answers) { // such as without the right to forward ports
		return report, fmt.Errorf("none of %d ports gave an answer: the first: %w", len(ports), errs[0])
	}
	return status.PortReport{Ports: served, Unseen: unseen}, ctx.Err()
}

// atOnce calls do for each index below n, at most limit at a time.
func atOnce(limit, n int, do func(i int)) {
	var running errgroup.Group
	running.SetLimit(limit)
	for i := range n {
		running.Go(func() error { do(i); return nil })
	}
	_ = running.Wait() // nothing returns an error
}

// mountedSecrets reads the Secrets that the pods mount, by namespace and name. Those that this user may
// not read, or that do not exist, have no certificates.
func (c *Cluster) mountedSecrets(ctx context.Context, ports []status.PodPort) (map[string]map[string]status.MountedSecret, error) {
	var keys []types.NamespacedName
	found := map[string]map[string]status.MountedSecret{}
	for _, p := range ports {
		for _, name := range p.Secrets() {
			if found[p.Namespace] == nil {
				found[p.Namespace] = map[string]status.MountedSecret{}
			}
			if _, known := found[p.Namespace][name]; !known {
				found[p.Namespace][name] = status.MountedSecret{}
				keys = append(keys, types.NamespacedName{Namespace: p.Namespace, Name: name})
			}
		}
	}
	var mu sync.Mutex
	var failed error
	atOnce(maxConcurrent, len(keys), func(i int) {
		key := keys[i]
		secret, err := c.Client.CoreV1().Secrets(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			found[key.Namespace][key.Name] = mountedSecret(secret.Data)
		case apierrors.IsForbidden(err):
			found[key.Namespace][key.Name] = status.MountedSecret{Forbidden: true}
		case !apierrors.IsNotFound(err):
			failed = fmt.Errorf("read Secret %s: %w", key, err)
		}
	})
	return found, failed
}

// keystores are the extensions of files that are not opened.
var keystores = []string{".p12", ".pfx", ".jks", ".keystore", ".bcfks", ".der"}

// mountedSecret returns what may be served from a Secret with the data: the first certificate of each key in PEM, unless it
// is a CA's.
func mountedSecret(data map[string][]byte) status.MountedSecret {
	mounted := status.MountedSecret{CA: rootsIn(data[api.BundleKey]), Read: true}
	for key, value := range data {
		chain, _ := pki.ParseCertificates(pki.CertificateBlocks(value))
		damaged := len(chain) == 0 && (key == corev1.TLSCertKey || bytes.Contains(value, []byte("-----BEGIN CERTIFICATE-----")))
		switch {
		case damaged, slices.Contains(keystores, strings.ToLower(path.Ext(key))):
			mounted.Read = false
		case len(chain) > 0 && (key == corev1.TLSCertKey || !chain[0].IsCA):
			mounted.Leaves = append(mounted.Leaves, chain[0])
		}
	}
	return mounted
}

// rootsOf returns what clients in each namespace may trust.
func (c *Cluster) rootsOf(ctx context.Context, ports []status.PodPort) (map[string]status.Roots, error) {
	public := publicRoots()
	roots := map[string]status.Roots{}
	for _, p := range ports {
		if _, known := roots[p.Namespace]; known {
			continue
		}
		r := status.Roots{Public: public}
		bundle, err := c.Client.CoreV1().ConfigMaps(p.Namespace).Get(ctx, api.BundleName, metav1.GetOptions{})
		switch {
		case err == nil:
			r.Bundle = rootsIn([]byte(bundle.Data[api.BundleKey]))
		case apierrors.IsForbidden(err):
			r.Unread = true
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("read ConfigMap %s/%s: %w", p.Namespace, api.BundleName, err)
		}
		roots[p.Namespace] = r
	}
	return roots, nil
}

// rootsIn returns the roots in PEM, or nil without data. OpenSSL's clients verify nothing with an
// intermediate alone, so those do not count, and clients that get data that cannot be read verify nothing.
func rootsIn(data []byte) *x509.CertPool {
	if len(data) == 0 {
		return nil
	}
	certs, _ := pki.ParseCertificates(pki.CertificateBlocks(data))
	return pki.PoolOf(slices.DeleteFunc(certs, func(c *x509.Certificate) bool { return !pki.SelfIssued(c) }))
}

// publicRoots returns the roots of this machine, or nil if it has none.
func publicRoots() *x509.CertPool {
	public, err := x509.SystemCertPool()
	if err != nil {
		return nil
	}
	return public
}
