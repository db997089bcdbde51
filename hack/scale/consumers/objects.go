package consumers

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/hack/measure"
	"github.com/servingcert/servingcert/hack/process"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/pki"
)

func (f *Field) prepare(ctx context.Context) error {
	if err := f.MakeNamespace(ctx, api.DefaultNamespace, nil); err != nil {
		return err
	}
	for first := 0; first < f.services(); first += perNamespace {
		if err := f.makeNamespace(ctx, namespaceOf(first)); err != nil {
			return err
		}
	}
	var err error
	if f.key, err = pki.GenerateKey(pki.ECDSAP256); err != nil {
		return err
	}
	now := time.Now()
	if f.root, err = pki.NewRoot(f.key, 1, pki.Constraints{PermittedDNS: []string{"svc"}}, now.Add(-time.Hour), now.Add(1000*time.Hour)); err != nil {
		return err
	}
	status := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: api.CAStatusName}, Data: map[string]string{api.BundleKey: string(pki.NewBundle(f.root).PEM())}}
	if _, err := f.Client.CoreV1().ConfigMaps(api.DefaultNamespace).Create(ctx, status, metav1.CreateOptions{}); err != nil {
		return err
	}
	process.Step("%d Services and %d pods", f.services(), f.Pods)
	if err := measure.Each(ctx, f.services(), f.Workers, f.newService); err != nil {
		return err
	}
	if err := measure.Each(ctx, f.Pods, f.Workers, f.makePod); err != nil {
		return err
	}
	return f.renew(ctx)
}

// namespaceOf is the namespace of the i-th Service.
func namespaceOf(i int) string { return fmt.Sprintf("shop-%03d", i/perNamespace) }

// makeNamespace makes a namespace in which pods can be made.
func (f *Field) makeNamespace(ctx context.Context, name string) error {
	if err := f.MakeNamespace(ctx, name, nil); err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err := f.Client.CoreV1().ServiceAccounts(name).Create(ctx, account, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// address is where the i-th pod serves.
func address(i int) netip.Addr {
	i++
	return netip.AddrFrom4([4]byte{127, 5, byte(i >> 8), byte(i)})
}

func (f *Field) newService(ctx context.Context, i int) error {
	_, err := f.Client.CoreV1().Services(namespaceOf(i)).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: measure.Name(i), Annotations: map[string]string{api.AnnotationSecretName: measure.Name(i) + "-tls"}},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": measure.Name(i)},
			Ports: []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(int32(f.s.Port))}},
		},
	}, metav1.CreateOptions{})
	return err
}

func (f *Field) makePod(ctx context.Context, i int) error {
	app, namespace, yes := measure.Name(i/f.PodsPerService), namespaceOf(i/f.PodsPerService), true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: app + "-abc-" + strconv.Itoa(i), Annotations: map[string]string{"example.com/padding": padding}, Labels: map[string]string{"app": app, "pod-template-hash": "abc"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-abc", UID: "0b8a2c55-3b8c-4b58-9f2e-6f1d7c1f0a77", Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "example.com/x", VolumeMounts: []corev1.VolumeMount{{Name: "tls", MountPath: "/tls"}}}},
			Volumes:    []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: app + "-tls"}}}},
		},
	}
	if _, err := f.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	ip := address(i).String()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"phase": corev1.PodRunning, "podIP": ip, "podIPs": []corev1.PodIP{{IP: ip}}, "conditions": []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}})
	if err != nil {
		return err
	}
	_, err = f.Client.CoreV1().Pods(namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// renew makes a new certificate for each Service and says so in its condition.
func (f *Field) renew(ctx context.Context) error {
	leaves := make([]string, f.services())
	for i := range leaves {
		host := measure.Name(i) + "." + namespaceOf(i) + ".svc"
		key, err := pki.GenerateKey(pki.ECDSAP256)
		if err != nil {
			return err
		}
		serial, err := pki.NewSerial()
		if err != nil {
			return err
		}
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: serial, DNSNames: []string{host}, NotBefore: pki.NotBefore(time.Now()), NotAfter: time.Now().Add(100 * time.Hour),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}, f.root, key.Public(), f.key)
		if err != nil {
			return err
		}
		leaf, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		keyPEM, err := pki.EncodeKey(key)
		if err != nil {
			return err
		}
		leaves[i], f.s.Pairs[host] = pki.Fingerprint(leaf), pairPEM{pki.EncodeCertificates(leaf), keyPEM}
	}
	return measure.Each(ctx, f.services(), f.Workers, func(ctx context.Context, i int) error {
		ready := state.Say(metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Issued", LastTransitionTime: metav1.Now(), Message: "issued"},
			state.Ready{Secret: measure.Name(i) + "-tls", Leaf: leaves[i]})
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": ready.Both()}})
		if err != nil {
			return err
		}
		_, err = f.Client.CoreV1().Services(namespaceOf(i)).Patch(ctx, measure.Name(i), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}
