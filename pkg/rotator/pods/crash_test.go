package pods

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/rotatortest"
)

var someAttempt = strings.Repeat("0a", 8)

func withStatus(s api.InjectionStatus) rotatortest.Change {
	return rotatortest.All(rotatortest.Label(api.LabelInjected, "true"), rotatortest.Annotation(api.AnnotationStatus, s.Format()))
}

// crashing is a container that waits for its next start after a run of a second.
func crashing(name, message string) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: name, RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}
	s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		ExitCode: 2, Reason: "Error", Message: message, StartedAt: metav1.NewTime(rotatortest.Noon), FinishedAt: metav1.NewTime(rotatortest.Noon.Add(time.Second)),
	}
	return s
}

func statuses(s ...corev1.ContainerStatus) rotatortest.Change {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses = s }
}

func TestWhatIsKeptOfACrash(t *testing.T) {
	attempted := withStatus(api.InjectionStatus{Secret: "web-tls", Attempts: map[string]string{"app": someAttempt}})
	spec := func(p *corev1.Pod) {
		p.Status.StartTime = &metav1.Time{Time: rotatortest.Noon.Add(-time.Hour)}
		rotatortest.SecretVolume("web-tls")(p)
		p.Spec.Containers = []corev1.Container{{
			Name: "app", Command: []string{"/app", "-d", "/etc/servingcert"}, Args: []string{"--port=80", "--tls-cert-file=/etc/servingcert/tls.crt", "--other=/etc/other", "/etc/servingcert/tls.key"},
			Env: []corev1.EnvVar{
				{Name: "APP_CERT", Value: "/etc/servingcert/tls.crt"}, {Name: api.EnvCertFile, Value: "/etc/servingcert/tls.crt"}, {Name: "HOME", Value: "/"},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/etc/servingcert/"}, {Name: "x", MountPath: "/etc/other"}},
		}}
	}
	f := FactsOf(rotatortest.Pod(spec, attempted, statuses(crashing("app", "said"), crashing("proxy", "said"))))
	assert.Equal(t, &Crashes{Begun: rotatortest.Noon.Add(-time.Hour), Containers: []Crash{
		{
			Container: "app", Waiting: true, Restarts: 3, Started: rotatortest.Noon, Finished: rotatortest.Noon.Add(time.Second), ExitCode: 2, Reason: "Error",
			Message: "said", Given: []string{"APP_CERT", "d", "tls-cert-file"},
		},
		{Container: "proxy", Waiting: true, Restarts: 3, Started: rotatortest.Noon, Finished: rotatortest.Noon.Add(time.Second), ExitCode: 2, Reason: "Error"},
	}}, f.Crashes, "the text is kept where there is an attempt")

	said := api.InjectionStatus{KeySource: api.KeySourcePod, Attempts: map[string]string{"app": someAttempt}, Names: map[string]string{"app": "tls,tls-cert-file,a b", "proxy": "x"}}
	ofItsOwn := func(p *corev1.Pod) {
		p.Spec.Volumes[0].Projected = &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{PodCertificate: &corev1.PodCertificateProjection{SignerName: api.SignerName}}}}
	}
	f = FactsOf(rotatortest.Pod(spec, ofItsOwn, withStatus(said), statuses(crashing("app", "said"))))
	assert.Equal(t, []string{"APP_CERT", "d", "tls", "tls-cert-file"}, f.Crashes.Containers[0].Given, "a key that the pod made, and a name that leads to no file")

	withheld := withStatus(api.InjectionStatus{Withheld: map[string]string{"app": someAttempt}})
	f = FactsOf(rotatortest.Pod(spec, withheld, statuses(crashing("app", "said"))))
	assert.Empty(t, f.Crashes.Containers[0].Message)
	assert.Empty(t, f.Crashes.Containers[0].Given)
	f = FactsOf(rotatortest.Pod(attempted, statuses(crashing("app", strings.Repeat("a", 10)+strings.Repeat("b", maxMessage)))))
	assert.Equal(t, strings.Repeat("b", maxMessage), f.Crashes.Containers[0].Message)
	assert.Empty(t, f.Crashes.Containers[0].Given, "a container that is not in the spec")
}

func TestWhichCrashesAreKept(t *testing.T) {
	state := func(state corev1.ContainerState, change func(*corev1.ContainerStateTerminated)) rotatortest.Change {
		s := crashing("app", "")
		if change != nil {
			change(s.LastTerminationState.Terminated)
		}
		s.State = state
		return statuses(s)
	}
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	loop := waiting("CrashLoopBackOff")
	resumed := metav1.NewTime(rotatortest.Noon.Add(time.Minute))
	for _, tt := range []struct {
		name   string
		change rotatortest.Change
		want   bool
	}{
		{"none", nil, false},
		{"waits", state(loop, nil), true},
		{"ended", state(corev1.ContainerState{Terminated: crashing("", "").LastTerminationState.Terminated}, nil), true},
		{"runs again", state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: resumed}}, nil), true},
		{"waits for its image", state(waiting("ImagePullBackOff"), nil), false},
		{"ended well", state(loop, func(t *corev1.ContainerStateTerminated) { t.ExitCode = 0 }), false},
		{"ran for long", state(loop, func(t *corev1.ContainerStateTerminated) {
			t.FinishedAt = metav1.NewTime(t.StartedAt.Add(ShortRun + time.Second))
		}), false},
		{"runs for the first time", statuses(corev1.ContainerStatus{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}), false},
		{"an init container", func(p *corev1.Pod) { p.Status.InitContainerStatuses = []corev1.ContainerStatus{crashing("init", "")} }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			owned := func(p *corev1.Pod) {
				p.UID, p.OwnerReferences = "u", []metav1.OwnerReference{rotatortest.ControlledBy("apps/v1", "StatefulSet", "web")}
			}
			f := FactsOf(rotatortest.Pod(owned, tt.change))
			require.Equal(t, tt.want, f.Crashes != nil)
			assert.Equal(t, tt.want, f.UID == "u")
			assert.Equal(t, FactsOf(rotatortest.Pod(owned)).Template, f.Template, "that is no matter of the template")
			if tt.name == "runs again" {
				assert.True(t, f.Crashes.Containers[0].Resumed.Equal(resumed.Time))
			}
		})
	}
}

func TestWhatIsKeptOfAStatus(t *testing.T) {
	s := api.InjectionStatus{Secret: "web-tls", Service: "web", Attempts: map[string]string{"app": someAttempt}, Withheld: map[string]string{"b": someAttempt, "a": someAttempt}}
	of := func(changes ...rotatortest.Change) Template {
		return FactsOf(rotatortest.Pod(changes...)).Template.Value()
	}
	got := of(withStatus(s))
	assert.Equal(t, Given{"web", "web-tls", "app=" + someAttempt + ",!a=" + someAttempt + ",!b=" + someAttempt}, got.Given)
	assert.Equal(t, s.ContainerAttempts(), got.ContainerAttempts())
	assert.Empty(t, of(rotatortest.Annotation(api.AnnotationStatus, s.Format())).Given, "it was not injected")
	assert.Empty(t, of(withStatus(api.InjectionStatus{Service: "web"})).Given)
	assert.Empty(t, new(Template).ContainerAttempts())
	s.Service, s.Secret = "../web", strings.Repeat("x", 300)
	assert.Equal(t, "app="+someAttempt+",!a="+someAttempt+",!b="+someAttempt, of(withStatus(s)).Given.Attempts)
	assert.Empty(t, of(withStatus(s)).Given.Service+of(withStatus(s)).Given.Secret)
}

func TestRevision(t *testing.T) {
	for want, labels := range map[string]map[string]string{
		"": nil, "a": {"pod-template-hash": "a"}, "b": {"controller-revision-hash": "b", "app": "web"},
	} {
		got := FactsOf(rotatortest.Pod(func(p *corev1.Pod) { p.Labels = labels })).Template.Value()
		assert.Equal(t, want, got.Revision())
	}
}
