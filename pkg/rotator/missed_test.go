package rotator

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
)

// chooseFirst stands for the webhook's decision: the pod's own Secret, else that
// of the first Service whose whole selector is among the pod's labels, else the
// conventional one.
func chooseFirst(labels map[string]string, secretName string, conventional bool, services []*corev1.Service) Choice {
	c := Choice{Secret: secretName}
	for _, s := range services {
		selects := len(s.Spec.Selector) > 0
		for k, v := range s.Spec.Selector {
			selects = selects && labels[k] == v
		}
		secret, _ := api.Wants(s)
		if selects && (c.Secret == "" || c.Secret == secret) {
			return Choice{Secret: secret, Service: s.Name}
		}
	}
	if c.Secret == "" && conventional {
		return Choice{Secret: api.ConventionalSecretName, Conventional: true}
	}
	return c
}

func service(name, secret string, selector ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-of-" + name)}}
	s.Annotations = map[string]string{api.AnnotationSecretName: secret}
	s.Spec.Selector = pairs(selector)
	return s
}

func pairs(keysAndValues []string) map[string]string {
	m := map[string]string{}
	for pair := range slices.Chunk(keysAndValues, 2) {
		m[pair[0]] = pair[1]
	}
	return m
}

// webPod is a pod that Service web selects, changed.
func webPod(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "uid-of-web", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{},
	}}
	pod.Status.Phase = corev1.PodRunning
	if change != nil {
		change(pod)
	}
	return pod
}

func label(k, v string) func(*corev1.Pod)      { return func(p *corev1.Pod) { p.Labels[k] = v } }
func annotation(k, v string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Annotations[k] = v } }

func secretVolume(name string, keys ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		source := &corev1.SecretVolumeSource{SecretName: name, Items: items(keys)}
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{Secret: source}})
	}
}

func projectedVolume(name string, keys ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Items: items(keys)}},
			}},
		}})
	}
}

func items(keys []string) []corev1.KeyToPath {
	var out []corev1.KeyToPath
	for _, k := range keys {
		out = append(out, corev1.KeyToPath{Key: k, Path: "renamed-" + k})
	}
	return out
}

func TestJudge(t *testing.T) {
	web := []*corev1.Service{service("db", "db-tls", "app", "db"), service("web", "web-tls", "app", "web")}
	optedIn := Place{OptedIn: true, Services: web}
	byService, byPod := Choice{Secret: "web-tls", Service: "web"}, Choice{Secret: "mine"}
	now := metav1.NewTime(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	tests := []struct {
		name   string
		place  Place
		change func(*corev1.Pod)
		want   Verdict
	}{
		{"selected", optedIn, nil, Verdict{ReasonNotInjected, byService}},
		{"names a Secret", optedIn, annotation(api.AnnotationSecretName, "mine"), Verdict{ReasonNotInjected, byPod}},
		{"names a Secret, no Service", Place{OptedIn: true}, annotation(api.AnnotationSecretName, "mine"), Verdict{ReasonNotInjected, byPod}},
		{"selected by none", optedIn, label("app", "other"), Verdict{ReasonNotConcerned, Choice{}}},
		{"no labels", optedIn, func(p *corev1.Pod) { p.Labels = nil }, Verdict{ReasonNotConcerned, Choice{}}},
		{"no Services", Place{OptedIn: true}, nil, Verdict{ReasonNotConcerned, Choice{}}},

		{"not labelled", Place{Services: web}, nil, Verdict{Reason: ReasonNotOptedIn}},
		{"excluded", Place{OptedIn: true, Excluded: true, Services: web}, nil, Verdict{Reason: ReasonExcluded}},
		{"being deleted", optedIn, func(p *corev1.Pod) { p.DeletionTimestamp = &now }, Verdict{Reason: ReasonDeleting}},
		{"mirror pod", optedIn, annotation(corev1.MirrorPodAnnotationKey, "x"), Verdict{Reason: ReasonMirrorPod}},
		{"opted out", optedIn, label(api.LabelInject, api.InjectDisabled), Verdict{Reason: ReasonOptedOut}},
		{"opted in by itself", optedIn, label(api.LabelInject, api.InjectEnabled), Verdict{ReasonNotInjected, byService}},
		{"windows", optedIn, func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }, Verdict{Reason: ReasonWindows}},
		{"windows node", optedIn, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "windows"} }, Verdict{Reason: ReasonWindows}},
		{"linux", optedIn, func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Linux} }, Verdict{ReasonNotInjected, byService}},
		{"succeeded", optedIn, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, Verdict{Reason: ReasonFinished}},
		{"failed", optedIn, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, Verdict{Reason: ReasonFinished}},
		{"pending", optedIn, func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, Verdict{ReasonNotInjected, byService}},

		{"mounts it", optedIn, secretVolume("web-tls"), Verdict{ReasonMounts, byService}},
		{"mounts it among others", optedIn, func(p *corev1.Pod) {
			for _, name := range []string{"a", "web-tls", "z"} {
				secretVolume(name)(p)
			}
		}, Verdict{ReasonMounts, byService}},
		{"mounts its key", optedIn, secretVolume("web-tls", "tls.crt", "tls.key"), Verdict{ReasonMounts, byService}},
		{"mounts only its CA", optedIn, secretVolume("web-tls", "ca.crt"), Verdict{ReasonNotInjected, byService}},
		{"projects it", optedIn, projectedVolume("web-tls"), Verdict{ReasonMounts, byService}},
		{"projects its key", optedIn, projectedVolume("web-tls", "tls.key"), Verdict{ReasonMounts, byService}},
		{"projects only its CA", optedIn, projectedVolume("web-tls", "ca.crt"), Verdict{ReasonNotInjected, byService}},
		{"mounts another", optedIn, secretVolume("db-tls"), Verdict{ReasonNotInjected, byService}},
		{"mounts one with a longer name", optedIn, secretVolume("web-tls-2"), Verdict{ReasonNotInjected, byService}},

		{"explained", optedIn, annotation(api.AnnotationStatus, `{"secret":"web-tls","service":"web","reason":"MountPathTaken"}`), Verdict{ReasonExplained, byService}},
		{"explained for another Secret", optedIn, annotation(api.AnnotationStatus, `{"secret":"old-tls","reason":"MountPathTaken"}`), Verdict{ReasonNotInjected, byService}},
		{"seen before the Service asked", optedIn, annotation(api.AnnotationStatus, `{"reason":"NotConcerned","notes":["UnknownAnnotation: x"]}`), Verdict{ReasonNotInjected, byService}},
		{"status of an injected pod that it was copied from", optedIn, annotation(api.AnnotationStatus, `{"secret":"web-tls","containers":{"web":"files"}}`), Verdict{ReasonNotInjected, byService}},
		{"status is no JSON", optedIn, annotation(api.AnnotationStatus, `web-tls`), Verdict{ReasonNotInjected, byService}},
		{"label of an injected pod that it was copied from", optedIn, label(api.LabelInjected, "true"), Verdict{ReasonNotInjected, byService}},

		{"would be refused", optedIn, annotation(api.AnnotationMode, "flags"), Verdict{ReasonMistake, byService}},
		{"would be refused for its Secret", optedIn, annotation(api.AnnotationSecretName, "No_Name"), Verdict{ReasonMistake, Choice{Secret: "No_Name"}}},
		{"would be refused, concerns nobody", Place{OptedIn: true}, annotation(api.AnnotationMode, "flags"), Verdict{ReasonNotConcerned, Choice{}}},
		{"would be refused, mounts it", optedIn, func(p *corev1.Pod) {
			annotation(api.AnnotationMode, "flags")(p)
			secretVolume("web-tls")(p)
		}, Verdict{ReasonMounts, byService}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Judge(FactsOf(webPod(tt.change)), tt.place, chooseFirst)
			assert.Equal(t, tt.want, got)
			missed := got.Reason == ReasonNotInjected || got.Reason == ReasonMistake
			assert.Equal(t, missed, got.Missed())
		})
	}
}
