package uninjected

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/test/rotatortest"
)

func TestEvaluate(t *testing.T) {
	web := []*corev1.Service{rotatortest.Service("db", "db-tls", "app", "db"), rotatortest.Service("web", "web-tls", "app", "web")}
	optedIn := Place{OptedIn: true, Services: web}
	serving := Place{OptedIn: true, Services: []*corev1.Service{rotatortest.Asking("web", map[string]string{"app": "web"}, 8443)}}
	hook := rotatortest.Annotation("helm.sh/hook", "test")
	byService, byPod := Choice{Key: pods.SecretKey("web-tls"), Service: "web"}, Choice{Key: pods.SecretKey("mine")}
	now := metav1.NewTime(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	tests := []struct {
		name   string
		place  Place
		change func(*corev1.Pod)
		want   Verdict
	}{
		{"selected", optedIn, nil, Verdict{Reason: ReasonNotInjected, Choice: byService}},
		{"names a Secret", optedIn, rotatortest.Annotation(api.AnnotationSecretName, "mine"), Verdict{Reason: ReasonNotInjected, Choice: byPod}},
		{"names a Secret, no Service", Place{OptedIn: true}, rotatortest.Annotation(api.AnnotationSecretName, "mine"), Verdict{Reason: ReasonNotInjected, Choice: byPod}},
		{"selected by none", optedIn, rotatortest.Label("app", "other"), Verdict{Reason: ReasonNotConcerned, Choice: Choice{}}},
		{"no labels", optedIn, func(p *corev1.Pod) { p.Labels = nil }, Verdict{Reason: ReasonNotConcerned, Choice: Choice{}}},
		{"no Services", Place{OptedIn: true}, nil, Verdict{Reason: ReasonNotConcerned, Choice: Choice{}}},

		{"not labelled", Place{Services: web}, nil, Verdict{Reason: ReasonNotOptedIn}},
		{"excluded", Place{OptedIn: true, Excluded: true, Services: web}, nil, Verdict{Reason: ReasonExcluded}},
		{"being deleted", optedIn, func(p *corev1.Pod) { p.DeletionTimestamp = &now }, Verdict{Reason: ReasonDeleting}},
		{"mirror pod", optedIn, rotatortest.Annotation(corev1.MirrorPodAnnotationKey, "x"), Verdict{Reason: pods.ReasonMirrorPod}},
		{"opted out", optedIn, rotatortest.Label(api.LabelInject, api.InjectDisabled), Verdict{Reason: pods.ReasonOptedOut}},
		{"opted in by itself", optedIn, rotatortest.Label(api.LabelInject, api.InjectEnabled), Verdict{Reason: ReasonNotInjected, Choice: byService}},
		{"windows", optedIn, func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }, Verdict{Reason: pods.ReasonWindows}},
		{"windows node", optedIn, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "windows"} }, Verdict{Reason: pods.ReasonWindows}},
		{"linux", optedIn, func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Linux} }, Verdict{Reason: ReasonNotInjected, Choice: byService}},
		{"succeeded", optedIn, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, Verdict{Reason: pods.ReasonFinished}},
		{"failed", optedIn, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, Verdict{Reason: pods.ReasonFinished}},
		{"pending", optedIn, func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, Verdict{Reason: ReasonNotInjected, Choice: byService}},

		{"mounts it", optedIn, rotatortest.SecretVolume("web-tls"), Verdict{Reason: ReasonMounts, Choice: byService}},
		{"mounts it among others", optedIn, func(p *corev1.Pod) {
			for _, name := range []string{"a", "web-tls", "z"} {
				rotatortest.SecretVolume(name)(p)
			}
		}, Verdict{Reason: ReasonMounts, Choice: byService}},
		{"mounts its key", optedIn, rotatortest.SecretVolume("web-tls", "tls.crt", "tls.key"), Verdict{Reason: ReasonMounts, Choice: byService}},
		{"mounts only its CA", optedIn, rotatortest.SecretVolume("web-tls", "ca.crt"), Verdict{Reason: ReasonNotInjected, Choice: byService}},
		{"projects it", optedIn, rotatortest.ProjectedVolume("web-tls"), Verdict{Reason: ReasonMounts, Choice: byService}},
		{"projects its key", optedIn, rotatortest.ProjectedVolume("web-tls", "tls.key"), Verdict{Reason: ReasonMounts, Choice: byService}},
		{"mounts key and chain in one file", optedIn, rotatortest.SecretVolume("web-tls", "tls-combined.pem"), Verdict{Reason: ReasonMounts, Choice: byService}},
		{"projects only its CA", optedIn, rotatortest.ProjectedVolume("web-tls", "ca.crt"), Verdict{Reason: ReasonNotInjected, Choice: byService}},
		{"mounts another", optedIn, rotatortest.SecretVolume("db-tls"), Verdict{Reason: ReasonNotInjected, Choice: byService}},
		{"mounts one with a longer name", optedIn, rotatortest.SecretVolume("web-tls-2"), Verdict{Reason: ReasonNotInjected, Choice: byService}},

		{"explained", optedIn, rotatortest.Annotation(api.AnnotationStatus, `{"secret":"web-tls","service":"web","reason":"MountPathTaken"}`), Verdict{Reason: ReasonExplained, Choice: byService}},
		{"explained for another Secret", optedIn, rotatortest.Annotation(api.AnnotationStatus, `{"secret":"old-tls","reason":"MountPathTaken"}`), Verdict{Reason: ReasonNotInjected, Choice: byService}},
		{"seen before the Service asked", optedIn, rotatortest.Annotation(api.AnnotationStatus, `{"reason":"NotConcerned","notes":["UnknownAnnotation: x"]}`), Verdict{Reason: ReasonNotInjected, Choice: byService}},
		{"status of an injected pod that it was copied from", optedIn, rotatortest.Annotation(api.AnnotationStatus, `{"secret":"web-tls","containers":{"web":"files"}}`), Verdict{Reason: ReasonNotInjected, Choice: byService}},
		{"status is no JSON", optedIn, rotatortest.Annotation(api.AnnotationStatus, `web-tls`), Verdict{Reason: ReasonNotInjected, Choice: byService}},
		{"label of an injected pod that it was copied from", optedIn, rotatortest.Label(api.LabelInjected, "true"), Verdict{Reason: ReasonNotInjected, Choice: byService}},

		{"a Helm test", serving, hook, Verdict{Reason: ReasonNotServing, Choice: Choice{NotServing: true}}},
		{"a Helm test that would be refused", serving, rotatortest.All(hook, rotatortest.Annotation(api.AnnotationMode, "flags")), Verdict{Reason: ReasonNotServing, Choice: Choice{NotServing: true}}},
		{"a Helm test that names a Secret", serving, rotatortest.All(hook, rotatortest.Annotation(api.AnnotationSecretName, "mine")), Verdict{Reason: ReasonNotInjected, Choice: byPod}},
		{"was not serving, and is now", serving, rotatortest.Annotation(api.AnnotationStatus, `{"reason":"NotServing","notes":["NotServing: x"]}`), Verdict{Reason: ReasonNotInjected, Choice: Choice{Key: pods.SecretKey("web-tls"), Service: "web"}}},

		{"would be refused", optedIn, rotatortest.Annotation(api.AnnotationMode, "flags"), Verdict{Reason: ReasonMistake, Choice: byService}},
		{"would be refused for its Secret", optedIn, rotatortest.Annotation(api.AnnotationSecretName, "No_Name"), Verdict{Reason: ReasonMistake, Choice: Choice{Key: pods.SecretKey("No_Name")}}},
		{"would be rejected, but gets no Secret", Place{OptedIn: true}, rotatortest.Annotation(api.AnnotationMode, "flags"), Verdict{Reason: ReasonNotConcerned, Choice: Choice{}}},
		{"would be refused, mounts it", optedIn, func(p *corev1.Pod) {
			rotatortest.Annotation(api.AnnotationMode, "flags")(p)
			rotatortest.SecretVolume("web-tls")(p)
		}, Verdict{Reason: ReasonMounts, Choice: byService}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Evaluate(pods.FactsOf(rotatortest.Pod(tt.change)), tt.place)
			assert.Equal(t, tt.want, got)
			missed := got.Reason == ReasonNotInjected || got.Reason == ReasonMistake
			assert.Equal(t, missed, got.Missed())
		})
	}
}

func TestEvaluateConventionalSecret(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	inits := func(policy *corev1.ContainerRestartPolicy) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			rotatortest.WithPort(p)
			p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, []corev1.Container{{Name: "batch"}}
			p.Spec.InitContainers[0].RestartPolicy = policy
		}
	}
	with := rotatortest.All
	exists := Place{OptedIn: true, Conventional: true}
	conventional := Choice{Key: pods.SecretKey(api.ConventionalSecretName), Conventional: true}
	for name, c := range map[string]struct {
		place  Place
		change func(*corev1.Pod)
		want   Verdict
	}{
		"declares a port":                   {exists, rotatortest.WithPort, Verdict{Reason: ReasonNotInjected, Choice: conventional}},
		"declares none":                     {exists, nil, Verdict{Reason: ReasonNotConcerned}},
		"its sidecar declares one":          {exists, inits(&always), Verdict{Reason: ReasonNotInjected, Choice: conventional}},
		"its init container declares one":   {exists, inits(nil), Verdict{Reason: ReasonNotConcerned}},
		"a Job's":                           {exists, with(rotatortest.WithPort, func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job"}} }), Verdict{Reason: ReasonNotConcerned}},
		"no Secret":                         {Place{OptedIn: true}, rotatortest.WithPort, Verdict{Reason: ReasonNotConcerned}},
		"not opted in":                      {Place{Conventional: true}, rotatortest.WithPort, Verdict{Reason: ReasonNotOptedIn}},
		"excluded":                          {Place{OptedIn: true, Excluded: true, Conventional: true}, rotatortest.WithPort, Verdict{Reason: ReasonExcluded}},
		"mounts it by hand":                 {exists, with(rotatortest.WithPort, rotatortest.SecretVolume(api.ConventionalSecretName)), Verdict{Reason: ReasonMounts, Choice: conventional}},
		"names another":                     {exists, with(rotatortest.WithPort, rotatortest.Annotation(api.AnnotationSecretName, "mine")), Verdict{Reason: ReasonNotInjected, Choice: Choice{Key: pods.SecretKey("mine")}}},
		"a Service asks for another for it": {Place{OptedIn: true, Conventional: true, Services: []*corev1.Service{rotatortest.Service("web", "web-tls", "app", "web")}}, rotatortest.WithPort, Verdict{Reason: ReasonNotInjected, Choice: Choice{Key: pods.SecretKey("web-tls"), Service: "web"}}},
		"opted out":                         {exists, with(rotatortest.WithPort, rotatortest.Label(api.LabelInject, api.InjectDisabled)), Verdict{Reason: pods.ReasonOptedOut}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, Evaluate(pods.FactsOf(rotatortest.Pod(c.change)), c.place))
		})
	}
}
