package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/installed"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/flood"
	"github.com/servingcert/servingcert/test/keymaterial"
)

// attacks returns the attacks of one tenant on the others.
func attacks() []*scene {
	return []*scene{
		objects("pod-ports", "Pending pods with 500 Secrets in a volume and 500 ports", 500*time.Millisecond, 20, podPorts),
		objects("pod-containers", "pods whose annotation containers has 182 KiB, through the webhook and past it", 250*time.Millisecond, 20, podContainers),
		objects("pod-owners", "pods, Secrets and ConfigMaps with owner references of 200 KiB to 900 KiB", 500*time.Millisecond, 30, longOwners),
		objects("pods-huge", "pods with 4000 labels and 1000 ports, past the webhook", 500*time.Millisecond, 40, podsHuge),
		{name: "crash-words", what: "pods with a forged status that crash four times a second, always with another message and as of another template", attack: crashWords},
		objects("secret-keys", "Secrets with the signer's label and an RSA key of 390 KiB or 16 KiB", 500*time.Millisecond, 20, secretKeys),
		objects("secret-keystores", "Secrets with the signer's label and a keystore that takes 2^60 iterations to decode", 500*time.Millisecond, 20, secretKeystores),
		objects("secret-names", "Secrets with the signer's label and a certificate of 240 000 names", time.Second, 20, secretNames),
		objects("secret-labels", "Secrets with the signer's label, empty, that Services of the tenant and unknown objects own", 100*time.Millisecond, 100, stolenLabels),
		{name: "external-flips", what: "five Secrets of 1 MiB with 256 KiB of roots of one name, followed by Services, that are replaced ten times a second", attack: externalFlips},
		annotations("service-names", "Services whose extra-dns-names has 62 KiB, always others", 200*time.Millisecond, 10, serviceNames),
		annotations("service-flips", "five Services that each change secret-name ten times a second", 20*time.Millisecond, 5, serviceFlips),
		annotations("service-renewals", "20 Services that ask for another RSA key, one every 0.1 s", 100*time.Millisecond, 20, serviceRenewals),
		{name: "csr-waiting", what: "500 CertificateSigningRequests of a pod that wait for eight Services each, while one of these always changes, and two a second for 100 names", attack: waitingCSRs},
		objects("service-selectors", "60 Services whose selectors have 10 000 labels, 1.2 MiB each", 200*time.Millisecond, 60, serviceSelectors),
		objects("service-ports", "60 Services with 5000 ports, 0.8 MiB each", 200*time.Millisecond, 60, servicePorts),
		objects("service-texts", "60 Services with 5000 labels, 90 long names and 200 KiB of annotations that mean nothing", 200*time.Millisecond, 60, serviceTexts),
		objects("bad-annotations", "Services, pods and ConfigMaps with annotations of 64 KiB that are not valid", 250*time.Millisecond, 30, badAnnotations),
		{name: "opt-in", what: "forged conditions of 50 Services that claim a certificate, in a namespace without the label", attack: forgedConditions},
		{name: "reviews", what: "reviews of variable bombs and of empty values, posted at the webhook by an unknown client", attack: reviews},
		{name: "reviews-slow", what: "200 connections from 50 addresses to the webhook that send a byte a second", attack: slowReviews},
		ports("ports-headers", "600 connections from 50 addresses to every port of the processes, each with a header of 1 MiB that does not end", podsOfTenant, flood.Header(1<<20)),
		ports("ports-idle", "600 connections from 600 addresses to every port, silent after a request that is refused", portConnections, flood.Request),
		{name: "tarpits", what: "200 pods with 16 ports that accept and never answer; the Service's ports change", attack: tarpits},
		{name: "rollouts", what: "Deployments that ask to be restarted and never finish, or flap", attack: rollouts},
		{name: "trust-stream", what: "20 new annotated ConfigMaps a second, and two that alternate", attack: trustStream},
		objects("trust-immutable", "annotated ConfigMaps of 1 MiB that are immutable", time.Second, 100, trustImmutable),
	}
}

// constructor returns the i-th object of an attack. An earlier object may have had the same name.
type constructor func(a *attacker, i int, name string) client.Object

// objects returns an attack that replaces objects, one after the other.
func objects(name, what string, pause time.Duration, keep int, object constructor) *scene {
	return &scene{name: name, what: what, attack: func(ctx context.Context, a *attacker) {
		a.repeat(ctx, pause, func(i int) error { return a.Replace(ctx, object(a, i, a.nth(i, keep))) })
	}}
}

// annotations returns an attack that annotates Services, one after the other.
func annotations(name, what string, pause time.Duration, n int, annotations func(a *attacker, i int, service string) map[string]string) *scene {
	return &scene{name: name, what: what, attack: func(ctx context.Context, a *attacker) {
		a.createServices(ctx, n, nil)
		a.repeat(ctx, pause, func(i int) error {
			service := a.nth(i, n)
			_, err := a.Annotate(ctx, service, annotations(a, i, service))
			return err
		})
	}}
}

// passing opts a pod out of injection, so that the webhook does not see it.
func passing(pod *corev1.Pod) *corev1.Pod {
	pod.Labels[api.LabelInject] = api.InjectDisabled
	return pod
}

// numbered returns a map of n keys, made by format, with the same value.
func numbered(n int, format, value string) map[string]string {
	out := make(map[string]string, n)
	for i := range n {
		out[fmt.Sprintf(format, i)] = value
	}
	return out
}

// labelKey and labelValue are about as long as Kubernetes permits.
var labelKey, labelValue = strings.Repeat("k", 50) + "-%05d", strings.Repeat("v", 63)

// podPorts keeps n small: the API server's own work grows with its square, and the scene measures the
// rotator's.
func podPorts(a *attacker, _ int, name string) client.Object {
	const n = 500
	pod := passing(installed.PodOf(name, a.scene.name))
	c, volume := &pod.Spec.Containers[0], &corev1.ProjectedVolumeSource{}
	for i := range n {
		secret := corev1.LocalObjectReference{Name: fmt.Sprint("s", i)}
		volume.Sources = append(volume.Sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: secret}})
		c.Ports = append(c.Ports, c.Ports[0])
	}
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: volume}}}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	return pod
}

func podContainers(a *attacker, i int, name string) client.Object {
	if i == 0 {
		return installed.ServiceOf(a.scene.name)
	}
	pod := installed.PodOf(name, a.scene.name)
	pod.Annotations = map[string]string{api.AnnotationContainers: strings.Repeat("a,", 91<<10)}
	if i%2 == 1 {
		passing(pod)
	}
	return pod
}

// longOwners has long owner references, because the API server does not limit any field of them.
func longOwners(a *attacker, i int, name string) client.Object {
	o, size := []client.Object{passing(installed.PodOf(name, a.scene.name)), installed.SecretOf(name, ours(), nil, nil), bundleOf(name)}[i%3], 900<<10
	if i%3 == 0 {
		size = 200 << 10
	}
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: strings.Repeat("x", size), Name: "x", UID: "x"}})
	return o
}

// bundleOf returns a ConfigMap that requests the CA bundle.
func bundleOf(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{api.AnnotationInjectCABundle: "true"}}}
}

// podsHuge returns pods with as many labels and ports as the API server accepts.
func podsHuge(a *attacker, i int, name string) client.Object {
	pod := passing(installed.PodOf(name, a.scene.name))
	for key, value := range numbered(4000, fmt.Sprintf("%s.example.com/l%d-%%d", strings.Repeat("a", 50), i), labelValue) {
		pod.Labels[key] = value
	}
	pod.Spec.Containers[0].Ports = nil
	for j := range int32(1000) {
		pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports, corev1.ContainerPort{ContainerPort: 1 + j})
	}
	return pod
}

// These are made once, because they take long: certificates and keys in PEM, absurd keys of
// 390 KiB and 16 KiB, twice the permitted size of a key, and as many roots as are read.
var (
	oneName    = sync.OnceValues(func() (cert, key []byte) { return keymaterial.SelfSigned("a", 1) })
	manyNames  = sync.OnceValues(func() (cert, key []byte) { return keymaterial.SelfSigned("a", 240_000) })
	absurdKeys = sync.OnceValues(func() (large, small []byte) { return keymaterial.AbsurdKey(290 << 10), keymaterial.AbsurdKey(12 << 10) })
	manyRoots  = sync.OnceValue(func() (roots []byte) {
		for next, _ := oneName(); len(roots)+len(next) <= pki.MaxCertificates; next, _ = keymaterial.SelfSigned("a", 1) {
			roots = append(roots, next...)
		}
		return roots
	})
)

// secretKeys has its large keys in Secrets of another type than kubernetes.io/tls: the API server
// parses the keys of that type, for a warning, and takes longer than the signer may.
func secretKeys(_ *attacker, i int, name string) client.Object {
	cert, _ := oneName()
	large, small := absurdKeys()
	secret := installed.SecretOf(name, ours(), cert, small)
	if i%2 == 0 {
		secret.Type, secret.Data[corev1.TLSPrivateKeyKey] = corev1.SecretTypeOpaque, large
	}
	return secret
}

func secretKeystores(_ *attacker, _ int, name string) client.Object {
	cert, key := oneName()
	secret := installed.SecretOf(name, ours(), cert, key)
	secret.Data[formats.KeystoreFile] = keymaterial.Keystore(formats.DefaultPassword, 1<<60)
	return secret
}

func secretNames(_ *attacker, _ int, name string) client.Object {
	cert, key := manyNames()
	return installed.SecretOf(name, ours(), cert, key)
}

// stolenLabels returns Secrets that are owned by turns by a Service without a request and by one that
// does not exist.
func stolenLabels(a *attacker, i int, name string) client.Object {
	if i == 0 {
		a.plain = installed.ServiceOf(a.scene.name)
		a.plain.Annotations = nil
		return a.plain
	}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: a.plain.Name, UID: a.plain.UID}
	if i%2 == 1 || owner.UID == "" {
		owner.UID = "00000000-0000-0000-0000-000000000000"
	}
	secret := installed.SecretOf(name, ours(), nil, nil)
	secret.OwnerReferences = []metav1.OwnerReference{owner}
	return secret
}

func externalFlips(ctx context.Context, a *attacker) {
	const n = 5
	a.createServices(ctx, n, map[string]string{api.AnnotationIssuer: string(api.IssuerExternal)})
	a.repeat(ctx, 100*time.Millisecond, func(i int) error {
		cert, key := keymaterial.SelfSigned("a", 1)
		secret := installed.SecretOf(a.nth(i, n)+"-tls", nil, cert, key)
		secret.Data[api.BundleKey], secret.Data["padding"] = manyRoots(), make([]byte, 700<<10)
		return a.Replace(ctx, secret)
	})
}

func serviceNames(a *attacker, i int, service string) map[string]string {
	own := fmt.Sprintf("%d.%s.%s.svc,", i, service, a.Namespace)
	return map[string]string{api.AnnotationExtraDNSNames: own + strings.Repeat("a,", 31<<10)}
}

func serviceFlips(_ *attacker, i int, _ string) map[string]string {
	return map[string]string{api.AnnotationSecretName: fmt.Sprint("flip-", i)}
}

// serviceRenewals requests RSA keys, which are the most expensive. If RSA4096 is not permitted, the
// other half of the Services is still renewed.
func serviceRenewals(_ *attacker, i int, _ string) map[string]string {
	return map[string]string{
		api.AnnotationKeyAlgorithm: []string{"RSA4096", "RSA3072"}[i%2], api.AnnotationRenewAfter: time.Now().UTC().Format(time.RFC3339),
		api.AnnotationDuration: (time.Hour + time.Duration(i)*time.Minute).String(),
	}
}

// serviceSelectors returns Services with as many labels in the selector as a request can hold.
func serviceSelectors(_ *attacker, _ int, name string) client.Object {
	svc := installed.ServiceOf(name)
	svc.Spec.Selector = numbered(10_000, labelKey, labelValue)
	return svc
}

// servicePorts returns Services with many ports: the API server limits the size of an object, not the
// number of its ports.
func servicePorts(_ *attacker, _ int, name string) client.Object {
	svc := installed.ServiceOf(name)
	svc.Spec.Ports = nil
	protocol := "example.com/" + strings.Repeat("p", 60)
	for i := range int32(5000) {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{
			Name: fmt.Sprintf(labelKey, i), Port: 1 + i, TargetPort: intstr.FromInt32(1 + i), Protocol: corev1.ProtocolTCP, AppProtocol: &protocol,
		})
	}
	return svc
}

// serviceTexts returns Services with as many labels as fit, and as many long names as are permitted.
func serviceTexts(a *attacker, _ int, name string) client.Object {
	svc := installed.ServiceOf(name)
	svc.Labels = numbered(5000, labelKey, labelValue)
	svc.Annotations = numbered(200, api.Domain+"/x-%d", strings.Repeat("x", 1<<10))
	svc.Annotations[api.AnnotationSecretName] = name + "-tls"
	var names []string
	for i := range 90 {
		names = append(names, fmt.Sprintf("%sn%d.%s.%s.svc", strings.Repeat(strings.Repeat("n", 60)+".", 2), i, name, a.Namespace))
	}
	svc.Annotations[api.AnnotationExtraDNSNames] = strings.Join(names, ",")
	return svc
}

// badAnnotations returns objects that a policy may refuse, and whose values conditions would quote.
func badAnnotations(_ *attacker, i int, name string) client.Object {
	keys := []string{
		api.AnnotationDuration, api.AnnotationKeyAlgorithm, api.AnnotationRenewAfter, api.AnnotationExtraDNSNames, api.AnnotationClusterIPs,
		api.AnnotationMode, api.AnnotationMountPath, api.AnnotationOnRotate, api.AnnotationStatus, api.AnnotationLeaf, api.AnnotationInjectCABundle,
	}
	o := []client.Object{installed.ServiceOf(name), installed.PodOf(name, name), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}}[i%3]
	bad := map[string]string{}
	if i%3 == 0 {
		bad[api.AnnotationSecretName] = name + "-tls"
	}
	for _, n := range []int{i, i + 3} {
		bad[keys[n%len(keys)]] = strings.Repeat("\x1b[31m\"'<>", 64<<10/9)
	}
	o.SetAnnotations(bad)
	return o
}

func trustImmutable(_ *attacker, _ int, name string) client.Object {
	yes, m := true, bundleOf(name)
	m.Immutable, m.Data = &yes, map[string]string{api.BundleKey: strings.Repeat("x", 1<<20-1024)}
	return m
}

func trustStream(ctx context.Context, a *attacker) {
	const keep = 50
	many(2, func(half int) {
		if half == 0 {
			a.repeat(ctx, 50*time.Millisecond, func(i int) error {
				old := bundleOf(fmt.Sprint(a.scene.name, "-", i-keep))
				old.Namespace = a.Namespace
				_ = a.Delete(ctx, old) // the first do not exist
				return a.Add(ctx, bundleOf(fmt.Sprint(a.scene.name, "-", i)))
			})
			return
		}
		a.repeat(ctx, 250*time.Millisecond, func(i int) error { return a.Replace(ctx, bundleOf(fmt.Sprint("alternate-", i%2))) })
	})
}
