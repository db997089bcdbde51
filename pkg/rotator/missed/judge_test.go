package missed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/rotator/internal/fixture"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
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

func TestJudge(t *testing.T) {
	web := []*corev1.Service{fixture.Service("db", "db-tls", "app", "db"), fixture.Service("web", "web-tls", "app", "web")}
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
		{"names a Secret", optedIn, fixture.Annotation(api.AnnotationSecretName, "mine"), Verdict{ReasonNotInjected, byPod}},
		{"names a Secret, no Service", Place{OptedIn: true}, fixture.Annotation(api.AnnotationSecretName, "mine"), Verdict{ReasonNotInjected, byPod}},
		{"selected by none", optedIn, fixture.Label("app", "other"), Verdict{ReasonNotConcerned, Choice{}}},
		{"no labels", optedIn, func(p *corev1.Pod) { p.Labels = nil }, Verdict{ReasonNotConcerned, Choice{}}},
		{"no Services", Place{OptedIn: true}, nil, Verdict{ReasonNotConcerned, Choice{}}},

		{"not labelled", Place{Services: web}, nil, Verdict{Reason: ReasonNotOptedIn}},
		{"excluded", Place{OptedIn: true, Excluded: true, Services: web}, nil, Verdict{Reason: ReasonExcluded}},
		{"being deleted", optedIn, func(p *corev1.Pod) { p.DeletionTimestamp = &now }, Verdict{Reason: ReasonDeleting}},
		{"mirror pod", optedIn, fixture.Annotation(corev1.MirrorPodAnnotationKey, "x"), Verdict{Reason: pods.ReasonMirrorPod}},
		{"opted out", optedIn, fixture.Label(api.LabelInject, api.InjectDisabled), Verdict{Reason: pods.ReasonOptedOut}},
		{"opted in by itself", optedIn, fixture.Label(api.LabelInject, api.InjectEnabled), Verdict{ReasonNotInjected, byService}},
		{"windows", optedIn, func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }, Verdict{Reason: pods.ReasonWindows}},
		{"windows node", optedIn, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "windows"} }, Verdict{Reason: pods.ReasonWindows}},
		{"linux", optedIn, func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Linux} }, Verdict{ReasonNotInjected, byService}},
		{"succeeded", optedIn, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, Verdict{Reason: pods.ReasonFinished}},
		{"failed", optedIn, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, Verdict{Reason: pods.ReasonFinished}},
		{"pending", optedIn, func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, Verdict{ReasonNotInjected, byService}},

		{"mounts it", optedIn, fixture.SecretVolume("web-tls"), Verdict{ReasonMounts, byService}},
		{"mounts it among others", optedIn, func(p *corev1.Pod) {
			for _, name := range []string{"a", "web-tls", "z"} {
				fixture.SecretVolume(name)(p)
			}
		}, Verdict{ReasonMounts, byService}},
		{"mounts its key", optedIn, fixture.SecretVolume("web-tls", "tls.crt", "tls.key"), Verdict{ReasonMounts, byService}},
		{"mounts only its CA", optedIn, fixture.SecretVolume("web-tls", "ca.crt"), Verdict{ReasonNotInjected, byService}},
		{"projects it", optedIn, fixture.ProjectedVolume("web-tls"), Verdict{ReasonMounts, byService}},
		{"projects its key", optedIn, fixture.ProjectedVolume("web-tls", "tls.key"), Verdict{ReasonMounts, byService}},
		{"projects only its CA", optedIn, fixture.ProjectedVolume("web-tls", "ca.crt"), Verdict{ReasonNotInjected, byService}},
		{"mounts another", optedIn, fixture.SecretVolume("db-tls"), Verdict{ReasonNotInjected, byService}},
		{"mounts one with a longer name", optedIn, fixture.SecretVolume("web-tls-2"), Verdict{ReasonNotInjected, byService}},

		{"explained", optedIn, fixture.Annotation(api.AnnotationStatus, `{"secret":"web-tls","service":"web","reason":"MountPathTaken"}`), Verdict{ReasonExplained, byService}},
		{"explained for another Secret", optedIn, fixture.Annotation(api.AnnotationStatus, `{"secret":"old-tls","reason":"MountPathTaken"}`), Verdict{ReasonNotInjected, byService}},
		{"seen before the Service asked", optedIn, fixture.Annotation(api.AnnotationStatus, `{"reason":"NotConcerned","notes":["UnknownAnnotation: x"]}`), Verdict{ReasonNotInjected, byService}},
		{"status of an injected pod that it was copied from", optedIn, fixture.Annotation(api.AnnotationStatus, `{"secret":"web-tls","containers":{"web":"files"}}`), Verdict{ReasonNotInjected, byService}},
		{"status is no JSON", optedIn, fixture.Annotation(api.AnnotationStatus, `web-tls`), Verdict{ReasonNotInjected, byService}},
		{"label of an injected pod that it was copied from", optedIn, fixture.Label(api.LabelInjected, "true"), Verdict{ReasonNotInjected, byService}},

		{"would be refused", optedIn, fixture.Annotation(api.AnnotationMode, "flags"), Verdict{ReasonMistake, byService}},
		{"would be refused for its Secret", optedIn, fixture.Annotation(api.AnnotationSecretName, "No_Name"), Verdict{ReasonMistake, Choice{Secret: "No_Name"}}},
		{"would be refused, concerns nobody", Place{OptedIn: true}, fixture.Annotation(api.AnnotationMode, "flags"), Verdict{ReasonNotConcerned, Choice{}}},
		{"would be refused, mounts it", optedIn, func(p *corev1.Pod) {
			fixture.Annotation(api.AnnotationMode, "flags")(p)
			fixture.SecretVolume("web-tls")(p)
		}, Verdict{ReasonMounts, byService}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Judge(pods.FactsOf(fixture.Pod(tt.change)), tt.place, chooseFirst)
			assert.Equal(t, tt.want, got)
			missed := got.Reason == ReasonNotInjected || got.Reason == ReasonMistake
			assert.Equal(t, missed, got.Missed())
		})
	}
}

func TestJudgeByConvention(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	inits := func(policy *corev1.ContainerRestartPolicy) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			fixture.WithPort(p)
			p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, []corev1.Container{{Name: "batch"}}
			p.Spec.InitContainers[0].RestartPolicy = policy
		}
	}
	with := fixture.All
	exists := Place{OptedIn: true, Conventional: true}
	conventional := Choice{Secret: api.ConventionalSecretName, Conventional: true}
	for name, c := range map[string]struct {
		place  Place
		change func(*corev1.Pod)
		want   Verdict
	}{
		"declares a port":                   {exists, fixture.WithPort, Verdict{ReasonNotInjected, conventional}},
		"declares none":                     {exists, nil, Verdict{Reason: ReasonNotConcerned}},
		"its sidecar declares one":          {exists, inits(&always), Verdict{ReasonNotInjected, conventional}},
		"its init container declares one":   {exists, inits(nil), Verdict{Reason: ReasonNotConcerned}},
		"a Job's":                           {exists, with(fixture.WithPort, func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job"}} }), Verdict{Reason: ReasonNotConcerned}},
		"no Secret":                         {Place{OptedIn: true}, fixture.WithPort, Verdict{Reason: ReasonNotConcerned}},
		"not opted in":                      {Place{Conventional: true}, fixture.WithPort, Verdict{Reason: ReasonNotOptedIn}},
		"excluded":                          {Place{OptedIn: true, Excluded: true, Conventional: true}, fixture.WithPort, Verdict{Reason: ReasonExcluded}},
		"mounts it by hand":                 {exists, with(fixture.WithPort, fixture.SecretVolume(api.ConventionalSecretName)), Verdict{ReasonMounts, conventional}},
		"names another":                     {exists, with(fixture.WithPort, fixture.Annotation(api.AnnotationSecretName, "mine")), Verdict{ReasonNotInjected, Choice{Secret: "mine"}}},
		"a Service asks for another for it": {Place{OptedIn: true, Conventional: true, Services: []*corev1.Service{fixture.Service("web", "web-tls", "app", "web")}}, fixture.WithPort, Verdict{ReasonNotInjected, Choice{Secret: "web-tls", Service: "web"}}},
		"opted out":                         {exists, with(fixture.WithPort, fixture.Label(api.LabelInject, api.InjectDisabled)), Verdict{Reason: pods.ReasonOptedOut}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, Judge(pods.FactsOf(fixture.Pod(c.change)), c.place, chooseFirst))
		})
	}
}
