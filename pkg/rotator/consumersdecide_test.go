package rotator

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/servingcert/servingcert/pkg/api"
)

// readyPod is the facts of a ready pod of Deployment WORKLOAD, or of none, that was
// created two hours before noon.
func readyPod(name, workload string, changes ...func(*corev1.Pod)) *PodFacts {
	return FactsOf(webPod(func(p *corev1.Pod) {
		p.Name, p.UID, p.CreationTimestamp = name, types.UID("uid-of-"+name), metav1.NewTime(noon.Add(-2*time.Hour))
		p.Labels["pod-template-hash"] = "hash"
		if workload != "" {
			p.OwnerReferences = []metav1.OwnerReference{controlledBy("apps/v1", "ReplicaSet", workload+"-hash")}
		}
		p.Status.PodIP = "10.0.0.7"
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		secretVolume("web-tls")(p)
		for _, c := range changes {
			c(p)
		}
	}))
}

// lookAt is what there is with these pods, that have answered after the
// given time since noon.
func lookAt(after time.Duration, svc *corev1.Service, pods ...consumer) consumersSituation {
	return consumersSituation{
		now: noon.Add(after), namespace: "shop", secret: "web-tls", services: []*corev1.Service{svc}, cert: cert2,
		consumers: pods, begun: noon.Add(-time.Hour),
	}
}

func asked(pod *PodFacts, svc *corev1.Service, answers ...answer) consumer {
	return consumer{pod: pod, door: doorOf(pod.Template.Value(), "web-tls", []*corev1.Service{svc}), seen: noon.Add(-time.Hour), answers: answers}
}

func TestDecideConsumers(t *testing.T) {
	svc := serves(ready("web", leafNo(2)), leafNo(2), noon)
	restart := annotation(api.AnnotationOnRotate, "restart")
	younger := func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(noon.Add(time.Minute)) }
	old, late := showed(leafNo(1), 3*time.Minute), 3*time.Minute+time.Second
	old.notAfter = noon.Add(time.Hour)
	sooner := old
	sooner.notAfter = noon.Add(time.Minute)
	s := lookAt(late, svc,
		asked(readyPod("b", "web"), svc, old), asked(readyPod("a", "web"), svc, sooner), asked(readyPod("c", "web"), svc, showed(leafNo(2), time.Minute)),
		asked(readyPod("d", "web", younger), svc, old), // it reads something else
		asked(readyPod("e", "api", restart), svc, old),
		asked(readyPod("bare", ""), svc, old),
	)
	d := decideConsumers(s, testPace)
	assert.Empty(t, d.dial)
	assert.InDelta(t, 59+15, d.after.Seconds(), 15, "60 to 90 s after the last dial: they are stale since 60")
	assert.Equal(t, map[State]int{StateStale: 5, StateCurrent: 1}, d.states)
	assert.Equal(t, noon.Add(time.Minute), d.notAfter)
	require.Len(t, d.conditions, 1)
	assert.Equal(t, api.ServingStale, d.conditions[0].want.Reason)
	assert.Contains(t, d.conditions[0].want.Message, "served by Deployment api, Deployment web, pods that no workload made: ")

	stale := func(w Workload, r api.OnRotate, pods int, first string) staleWorkload {
		return staleWorkload{w, "web-tls", leafNo(2), noon, r, pods, first, types.UID("uid-of-" + first), "web", "uid-of-web"}
	}
	assert.Equal(t, []staleWorkload{
		stale(Workload{}, api.OnRotateReload, 1, "bare"), stale(deploymentNamed("api"), api.OnRotateRestart, 1, "e"), stale(deploymentNamed("web"), api.OnRotateReload, 2, "a"),
	}, d.stale)
	assert.Len(t, d.tell, 4)

	s.consumers = append(s.consumers, asked(readyPod("f", "web"), svc, showed(leafNo(1), time.Minute)))
	early := decideConsumers(s, testPace)
	assert.Empty(t, early.tell, "not of some while others may follow")
	assert.Empty(t, early.news)
	assert.Len(t, early.stale, 3)

	s.told = d.news
	s.consumers = s.consumers[:4]
	again := decideConsumers(s, testPace)
	assert.Empty(t, again.tell, "each is told once")
	assert.Len(t, again.stale, 1)
	s.told, s.consumers = again.news, nil
	assert.Equal(t, d.news, decideConsumers(s, testPace).news, "and stays told while the certificate is the same")
}

func TestWhoIsDialled(t *testing.T) {
	svc := ready("web", leafNo(2))
	current := asked(readyPod("a", "web"), svc, showed(leafNo(2), 0))
	outdated := asked(readyPod("b", "web"), svc, showed(leafNo(1), -time.Hour))
	unready := asked(readyPod("c", "web", func(p *corev1.Pod) { p.Status.Conditions = nil }), svc)
	first := asked(readyPod("d", "web"), svc)
	d := decideConsumers(lookAt(time.Minute, svc, current, outdated, unready, first), testPace)
	assert.Equal(t, []consumer{outdated, first}, d.dial)
	assert.Positive(t, d.after)
}

func TestAServiceWithoutReadyPods(t *testing.T) {
	svc := serves(ready("web", leafNo(2)), leafNo(2), noon)
	d := decideConsumers(lookAt(time.Minute, svc), testPace)
	assert.Empty(t, d.conditions, "not at once")
	assert.Equal(t, noon.Add(time.Minute), d.empty)
	assert.Equal(t, 30*time.Second, d.after)
	s := lookAt(90*time.Second, svc)
	s.empty = d.empty
	d = decideConsumers(s, testPace)
	require.Len(t, d.conditions, 1)
	assert.Equal(t, api.ServingNoConsumers, d.conditions[0].want.Reason)
	assert.Zero(t, d.after)

	s = lookAt(91*time.Second, svc, asked(readyPod("a", "web"), svc, showed(leafNo(2), time.Second)))
	s.empty = d.empty
	assert.Zero(t, decideConsumers(s, testPace).empty)
}

func TestANewPodDoesNotTakeBackWhatIsSaid(t *testing.T) {
	svc := serves(ready("web", leafNo(2)), leafNo(2), noon)
	current, unasked := asked(readyPod("a", "web"), svc, showed(leafNo(2), 0)), asked(readyPod("b", "web"), svc)
	unasked.seen = noon
	d := decideConsumers(lookAt(time.Minute, svc, current, unasked), testPace)
	require.Len(t, d.conditions, 1)
	assert.Equal(t, api.ServingCurrent, d.conditions[0].want.Reason)
	assert.Equal(t, map[State]int{StateCurrent: 1, StatePending: 1}, d.states)

	s := lookAt(time.Minute, svc, current, unasked) // by a leader that has just begun
	s.begun = noon
	assert.Empty(t, decideConsumers(s, testPace).conditions, "it says nothing before it has asked")
}

func TestFiftyServicesOverOnePod(t *testing.T) {
	var services []*corev1.Service
	for i := range 50 {
		services = append(services, ready(fmt.Sprintf("web-%02d", i), leafNo(2)))
	}
	pod := readyPod("a", "web")
	s := lookAt(time.Minute, services[0], consumer{pod: pod, door: doorOf(pod.Template.Value(), "web-tls", services), seen: noon})
	s.services = services
	assert.Len(t, decideConsumers(s, testPace).dial, 1)
	s.consumers[0].answers = []answer{showed(leafNo(2), time.Second)}
	d := decideConsumers(s, testPace)
	assert.Empty(t, d.dial)
	require.Len(t, d.conditions, 50)
	for _, c := range d.conditions {
		assert.Equal(t, api.ServingCurrent, c.want.Reason)
	}
}

func TestAServiceAnswersForItsOwnPods(t *testing.T) {
	web, db := ready("web", leafNo(2)), ready("db", leafNo(2))
	db.Spec.Selector = map[string]string{"app": "db"}
	services := []*corev1.Service{db, web}
	of := func(pod *PodFacts, a answer) consumer {
		return consumer{pod: pod, door: doorOf(pod.Template.Value(), "web-tls", services), seen: noon, answers: []answer{a}}
	}
	late := 3 * time.Minute
	s := lookAt(late, web, of(readyPod("a", "web"), showed(leafNo(2), late)), of(readyPod("b", "db", label("app", "db")), showed(leafNo(1), late)))
	s.services = services
	reasons := map[string]string{}
	for _, c := range decideConsumers(s, testPace).conditions {
		reasons[c.service.Name] = c.want.Reason
	}
	assert.Equal(t, map[string]string{"web": api.ServingCurrent, "db": api.ServingStale}, reasons)
}

func TestTheFirstOfTheOldCertificatesToEnd(t *testing.T) {
	ends := func(a answer, after time.Duration) answer {
		a.notAfter = noon.Add(after)
		return a
	}
	late := 3 * time.Minute
	c := consumerOf([]answer{ends(showed(leafNo(1), late), 2*time.Hour), ends(showed(leafNo(1), late), time.Hour), ends(showed(leafNo(2), late), time.Minute)})
	assert.Equal(t, noon.Add(time.Hour), c.firstEnd(cert2, testPace), "of those that are stale")
}

func TestEventsOfOldCertificates(t *testing.T) {
	svc := ready("web", leafNo(2))
	note := func(t told) string {
		recorder := events.NewFakeRecorder(1)
		eventWriter{recorder}.servesOld(lookAt(time.Hour, svc), t)
		select {
		case e := <-recorder.Events:
			return e
		default:
			return ""
		}
	}
	of := func(w Workload, r api.OnRotate, elsewhere bool) told {
		return told{staleNews{w, r, elsewhere}, 2, "web-a", "uid-of-web-a"}
	}
	const found = "Warning ServesOldCertificate 2 pods (web-a and others) serve an older certificate than Secret web-tls holds since 2026-05-01 12:00:00 UTC; "
	assert.Equal(t, found+"it does not reload its files: restart it: kubectl rollout restart deployment/web -n shop; with annotation servingcert.dev/on-rotate: restart on its pod template that is done for it",
		note(of(deploymentNamed("web"), api.OnRotateReload, false)))
	assert.Equal(t, found+"it does not reload its files: recreate it", note(of(Workload{}, api.OnRotateReload, false)))
	assert.Contains(t, note(of(deploymentNamed("web"), api.OnRotateRestart, true)), "it was created later, and so reads the certificate from somewhere else")
	assert.Empty(t, note(of(deploymentNamed("web"), api.OnRotateRestart, false)), "the restart tells")
	assert.Empty(t, note(of(deploymentNamed("web"), api.OnRotateNone, false)))
	assert.Empty(t, note(of(deploymentNamed("web"), api.OnRotateNone, true)))
}
