package invariant

import (
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Cluster is what is in a cluster at one moment.
type Cluster struct {
	Services  []corev1.Service  // that ask for a Secret, and are to get it
	Secrets   []corev1.Secret   // that carry the signer's label
	Published string            // the bundle in the CA's status
	Bundles   map[string]string // the bundle that clients of a namespace mount, by namespace
	Domain    string            // of the cluster
}

// Certificates checks that each Service has exactly one Secret, which is valid at now: the
// key matches, the names are exactly those of the Services that ask for it, the chain
// verifies under each bundle, and the condition names the leaf. A Secret without a Service
// is a violation too.
func Certificates(c Cluster, now time.Time) []string {
	var out []string
	asked := map[types.NamespacedName][]corev1.Service{}
	for _, svc := range c.Services {
		key := types.NamespacedName{Namespace: svc.Namespace, Name: svc.Annotations[api.AnnotationSecretName]}
		asked[key] = append(asked[key], svc)
	}
	secrets := map[types.NamespacedName]corev1.Secret{}
	for _, s := range c.Secrets {
		key := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
		secrets[key] = s
		if len(asked[key]) == 0 {
			out = append(out, fmt.Sprintf("Secret %s: no Service asks for it", key))
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(asked), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }) {
		secret, ok := secrets[key]
		if !ok {
			out = append(out, fmt.Sprintf("Service %s/%s: has no Secret %s", key.Namespace, asked[key][0].Name, key.Name))
			continue
		}
		for _, problem := range c.judge(secret, asked[key], now) {
			out = append(out, fmt.Sprintf("Secret %s: %s", key, problem))
		}
	}
	return out
}

// judge returns what is wrong with the Secret of some Services.
func (c Cluster) judge(secret corev1.Secret, services []corev1.Service, now time.Time) (out []string) {
	chain, err := pki.ParseCertificates(secret.Data[corev1.TLSCertKey])
	if err != nil {
		return []string{"certificate: " + err.Error()}
	}
	key, err := pki.ParseKey(secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return []string{"key: " + err.Error()}
	}
	leaf := chain[0]
	if !pki.KeyMatches(leaf, key) {
		out = append(out, "the key is not the certificate's")
	}
	if got, want := slices.Sorted(slices.Values(leaf.DNSNames)), c.names(services); !slices.Equal(got, want) {
		out = append(out, fmt.Sprintf("its names are %v, want %v", got, want))
	}
	for where, bundle := range map[string]string{"the CA's status": c.Published, "namespace " + secret.Namespace: c.Bundles[secret.Namespace]} {
		if err := verify(leaf, chain[1:], bundle, now); err != nil {
			out = append(out, fmt.Sprintf("under the bundle of %s: %v", where, err))
		}
	}
	for _, svc := range services {
		if !slices.ContainsFunc(secret.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == svc.UID }) {
			out = append(out, "Service "+svc.Name+" does not own it")
		}
		ready := api.Condition(&svc, api.ConditionReady)
		named, _ := state.LeafOf(&svc)
		switch {
		case ready == nil || ready.Status != metav1.ConditionTrue:
			out = append(out, "Service "+svc.Name+" is not Ready")
		case named != pki.Fingerprint(leaf):
			out = append(out, fmt.Sprintf("the condition of Service %s names leaf %.12s, not %.12s", svc.Name, named, pki.Fingerprint(leaf)))
		}
	}
	return out
}

// names are those of a certificate of the Services, in order.
func (c Cluster) names(services []corev1.Service) []string {
	var out []string
	for _, svc := range services {
		for _, name := range []string{svc.Name + "." + svc.Namespace + ".svc", svc.Name + "." + svc.Namespace + ".svc." + c.Domain} {
			out = append(out, name)
			if svc.Spec.ClusterIP == corev1.ClusterIPNone {
				out = append(out, "*."+name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// verify checks that a client that trusts the bundle accepts the leaf.
func verify(leaf *x509.Certificate, chain []*x509.Certificate, bundle string, now time.Time) error {
	roots, err := pki.ParseBundle([]byte(bundle))
	if err != nil {
		return err
	}
	for _, root := range roots.Certificates() {
		if err = pki.VerifyServing(leaf, chain, root, now); err == nil {
			return nil
		}
	}
	return err
}
