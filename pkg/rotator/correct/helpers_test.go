package correct

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/test/rotatortest"
)

const (
	unknownFlag = "unknown flag: --tls-cert-file\n"
	usageText   = "Usage: app [--port PORT]\n"
	otherText   = "dial tcp 10.0.0.1:5432: connect: connection refused\n"
)

var (
	attempt = strings.Repeat("0a", 8)
	noon    = rotatortest.Noon
)

// status is what the webhook says of a pod: that the attempt was made with container
// app, or withheld from it.
func status(withheld bool, changes ...func(*api.InjectionStatus)) rotatortest.Change {
	s := api.InjectionStatus{Secret: "web-tls", Service: "web"}
	if attempts := map[string]string{"app": attempt}; withheld {
		s.Withheld = attempts
	} else {
		s.Attempts = attempts
	}
	for _, change := range changes {
		change(&s)
	}
	return rotatortest.All(rotatortest.Label(api.LabelInjected, "true"), rotatortest.Annotation(api.AnnotationStatus, s.Format()))
}

// ended is the end of a run of container app: a minute before noon, after a second.
func ended(message string, changes ...func(*corev1.ContainerStateTerminated)) *corev1.ContainerStateTerminated {
	t := &corev1.ContainerStateTerminated{
		ExitCode: 2, Reason: "Error", Message: message,
		StartedAt: metav1.NewTime(noon.Add(-61 * time.Second)), FinishedAt: metav1.NewTime(noon.Add(-time.Minute)),
	}
	for _, change := range changes {
		change(t)
	}
	return t
}

// crashes has container app wait for its next start after it has ended like that twice.
func crashes(message string, changes ...func(*corev1.ContainerStateTerminated)) rotatortest.Change {
	return inState(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}, ended(message, changes...))
}

func inState(state corev1.ContainerState, last *corev1.ContainerStateTerminated) rotatortest.Change {
	return func(p *corev1.Pod) {
		s := corev1.ContainerStatus{Name: "app", RestartCount: 2, State: state}
		s.LastTerminationState.Terminated = last
		p.Status.ContainerStatuses = []corev1.ContainerStatus{s}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	}
}

func restarts(n int32) rotatortest.Change {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = n }
}

// pod is one of a Deployment, or of none, that was made three minutes before noon. It is
// ready.
func pod(name, workload string, changes ...rotatortest.Change) *pods.Facts {
	return pods.FactsOf(rotatortest.ReadyPod(name, workload, func(p *corev1.Pod) {
		p.Status.StartTime = &metav1.Time{Time: noon.Add(-3 * time.Minute)}
		p.Spec.Containers = []corev1.Container{{
			Name: "app", Args: []string{"--port=80", "--tls-cert-file=/etc/servingcert/tls.crt"},
			VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/etc/servingcert"}},
		}}
	}, rotatortest.All(changes...)))
}

// service asks for Secret web-tls; facts are what its condition says, and the cache
// shows.
func service(name string, facts ...state.Attempt) Service {
	svc := rotatortest.Service(name, "web-tls", "app", "web")
	svc.Status.Conditions = append(svc.Status.Conditions, condition(facts).Both()...)
	return Service{svc, facts}
}

func fact(verdict state.Verdict, ago time.Duration, onTrial bool) state.Attempt {
	return state.Attempt{Attempt: attempt, Verdict: verdict, Workload: "Deployment/web", Container: "app", Since: noon.Add(-ago), OnTrial: onTrial}
}

// written returns the situation after the decision was carried out and the caches have
// seen it.
func written(s Situation, d Decision) Situation {
	var services []Service
	for _, svc := range s.Services {
		out := Service{svc.DeepCopy(), nil}
		for _, c := range d.Changes {
			if c.Service.UID == svc.UID {
				out.Status.Conditions = c.Want.Both()
			}
		}
		out.Seen = state.FlagsOf(out.Service)
		services = append(services, out)
	}
	gone := map[types.UID]bool{}
	for _, p := range d.Delete {
		gone[p.UID] = true
	}
	var left []*pods.Facts
	for _, p := range s.Pods {
		if !gone[p.UID] {
			left = append(left, p)
		}
	}
	s.Services, s.Pods, s.Memory = services, left, d.Memory
	return s
}

func deleted(d Decision) []string {
	var names []string
	for _, p := range d.Delete {
		names = append(names, p.Name)
	}
	return names
}

// factsOf returns the facts that a decision leaves on the situation's first Service.
func factsOf(s Situation, d Decision) state.Flags {
	return state.FlagsOf(written(s, d).Services[0].Service)
}
