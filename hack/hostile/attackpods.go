package main

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/pkg/api"
)

// evilPort is a port that pods of the attacker declare.
const evilPort = 8443

// passing opts a pod out of injection, so that the webhook does not see it.
func passing(pod *corev1.Pod) *corev1.Pod {
	pod.Labels[api.LabelInject] = api.InjectDisabled
	return pod
}

// podPorts: the API server's own work grows with the square of n. It is the rotator's
// that is to be seen.
func podPorts(a *attacker) func(int) client.Object {
	const n, keep = 500, 20
	var sources []corev1.VolumeProjection
	var ports []corev1.ContainerPort
	for i := range n {
		sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprint("s", i)}}})
		ports = append(ports, corev1.ContainerPort{ContainerPort: evilPort})
	}
	return func(i int) client.Object {
		pod := passing(podOf(a.nth(i, keep), a.name, evilPort))
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		pod.Spec.Containers[0].Ports = ports
		return pod
	}
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
		return a.replace(ctx, pod)
	})
}

// longOwners: the API server bounds no part of an owner reference.
func longOwners(a *attacker) func(int) client.Object {
	owned := func(o client.Object, name string, size int) client.Object {
		o.SetName(name)
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: strings.Repeat("x", size), Name: "x", UID: "x"}})
		return o
	}
	return func(i int) client.Object {
		switch name := a.nth(i, 30); i % 3 {
		case 0:
			return owned(passing(podOf(name, a.name, evilPort)), name, 200<<10)
		case 1:
			return owned(labelled(name, nil, nil), name, 900<<10)
		default:
			return owned(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: wanted()}}, name, 900<<10)
		}
	}
}

// ours is the label of the signer's Secrets.
func ours() map[string]string { return map[string]string{api.LabelManagedBy: api.DefaultInstance} }

// wanted is the annotation that asks for the CA bundle.
func wanted() map[string]string { return map[string]string{api.AnnotationInjectCABundle: "true"} }

// labelled is a Secret that says that it is the signer's. The API server demands both keys.
func labelled(name string, certPEM, keyPEM []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: ours()}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: certPEM, corev1.TLSPrivateKeyKey: keyPEM},
	}
}

// badAnnotations writes what a policy may refuse, and what conditions would repeat.
func badAnnotations(a *attacker) func(int) client.Object {
	value := strings.Repeat("\x1b[31m\"'<>", 64<<10/9)
	keys := []string{
		api.AnnotationDuration, api.AnnotationKeyAlgorithm, api.AnnotationRenewAfter, api.AnnotationExtraDNSNames, api.AnnotationClusterIPs,
		api.AnnotationMode, api.AnnotationMountPath, api.AnnotationOnRotate, api.AnnotationStatus, api.AnnotationLeaf, api.AnnotationInjectCABundle,
	}
	return func(i int) client.Object {
		annotations := map[string]string{keys[i%len(keys)]: value, keys[(i+3)%len(keys)]: value}
		switch name := a.nth(i, 30); i % 3 {
		case 0:
			svc := serviceOf(name, evilPort)
			maps.Copy(svc.Annotations, annotations)
			return svc
		case 1:
			pod := podOf(name, a.name, evilPort)
			pod.Annotations = annotations
			return pod
		default:
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
		}
	}
}
