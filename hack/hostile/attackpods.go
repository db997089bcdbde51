package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// evilPort is a port that pods of the attacker declare.
const evilPort = 8443

// passing opts a pod out of injection, so that the webhook does not see it.
func passing(pod *corev1.Pod) *corev1.Pod {
	pod.Labels[api.LabelInject] = api.InjectDisabled
	return pod
}

func (a *attacker) replacePod(ctx context.Context, pod *corev1.Pod) error {
	return replace(ctx, a.pods(), pod.Name, func() error {
		_, err := a.pods().Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

// podPorts: the API server's own work grows with the square of n. It is the rotator's
// that is to be seen.
func podPorts(ctx context.Context, a *attacker) {
	const n, keep = 500, 20
	var sources []corev1.VolumeProjection
	var ports []corev1.ContainerPort
	for i := range n {
		sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprint("s", i)}}})
		ports = append(ports, corev1.ContainerPort{ContainerPort: evilPort})
	}
	a.repeat(ctx, 500*time.Millisecond, func(i int) error {
		pod := passing(podOf(a.nth(i, keep), a.name, evilPort))
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		pod.Spec.Containers[0].Ports = ports
		return a.replacePod(ctx, pod)
	})
}

func podContainers(ctx context.Context, a *attacker) {
	value := strings.Repeat("a,", 91<<10)
	_, err := a.services().Create(ctx, serviceOf(a.name, evilPort), metav1.CreateOptions{})
	a.count(ctx, err)
	a.repeat(ctx, 250*time.Millisecond, func(i int) error {
		pod := podOf(a.nth(i, 20), a.name, evilPort)
		pod.Annotations = map[string]string{api.AnnotationContainers: value}
		if i%2 == 1 {
			passing(pod)
		}
		return a.replacePod(ctx, pod)
	})
}

// longOwners: the API server bounds no part of an owner reference.
func longOwners(ctx context.Context, a *attacker) {
	owners := func(size int) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "v1", Kind: strings.Repeat("x", size), Name: "x", UID: "x"}}
	}
	a.repeat(ctx, 500*time.Millisecond, func(i int) error {
		switch name := a.nth(i, 30); i % 3 {
		case 0:
			pod := passing(podOf(name, a.name, evilPort))
			pod.OwnerReferences = owners(200 << 10)
			return a.replacePod(ctx, pod)
		case 1:
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: ours(), OwnerReferences: owners(900 << 10)}, Type: corev1.SecretTypeTLS}
			return a.replaceSecret(ctx, secret)
		default:
			return a.replaceConfigMap(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: wanted(), OwnerReferences: owners(900 << 10)}})
		}
	})
}

// ours is the label of the signer's Secrets.
func ours() map[string]string { return map[string]string{api.LabelManagedBy: api.DefaultInstance} }

// wanted is the annotation that asks for the CA bundle.
func wanted() map[string]string { return map[string]string{api.AnnotationInjectCABundle: "true"} }

func (a *attacker) replaceSecret(ctx context.Context, secret *corev1.Secret) error {
	if secret.Type == corev1.SecretTypeTLS && secret.Data == nil {
		secret.Data = map[string][]byte{corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: {}} // the API server demands the keys
	}
	return replace(ctx, a.secrets(), secret.Name, func() error {
		_, err := a.secrets().Create(ctx, secret, metav1.CreateOptions{})
		return err
	})
}

func (a *attacker) replaceConfigMap(ctx context.Context, m *corev1.ConfigMap) error {
	return replace(ctx, a.configMaps(), m.Name, func() error {
		_, err := a.configMaps().Create(ctx, m, metav1.CreateOptions{})
		return err
	})
}

// badAnnotations writes what a policy may refuse, and what conditions would repeat.
func badAnnotations(ctx context.Context, a *attacker) {
	value := strings.Repeat("\x1b[31m\"'<>", 64<<10/9)
	keys := []string{
		api.AnnotationDuration, api.AnnotationKeyAlgorithm, api.AnnotationRenewAfter, api.AnnotationExtraDNSNames, api.AnnotationClusterIPs,
		api.AnnotationMode, api.AnnotationMountPath, api.AnnotationOnRotate, api.AnnotationStatus, api.AnnotationLeaf, api.AnnotationInjectCABundle,
	}
	a.repeat(ctx, 250*time.Millisecond, func(i int) error {
		annotations := map[string]string{keys[i%len(keys)]: value, keys[(i+3)%len(keys)]: value}
		switch name := a.nth(i, 30); i % 3 {
		case 0:
			svc := serviceOf(name, evilPort)
			for k, v := range annotations {
				svc.Annotations[k] = v
			}
			return replace(ctx, a.services(), name, func() error {
				_, err := a.services().Create(ctx, svc, metav1.CreateOptions{})
				return err
			})
		case 1:
			pod := podOf(name, a.name, evilPort)
			pod.Annotations = annotations
			return a.replacePod(ctx, pod)
		default:
			return a.replaceConfigMap(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}})
		}
	})
}
