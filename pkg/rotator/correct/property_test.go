package correct

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/test/rotatortest"
)

var drawnAttempts = []string{attempt, "0b0b0b0b0b0b0b0b", "0c0c0c0c0c0c0c0c"}

func drawPod(t *rapid.T, i int) *pods.Facts {
	given := status(rapid.Bool().Draw(t, "withheld"), func(s *api.InjectionStatus) {
		s.Service = rapid.SampledFrom([]string{"web", "api", "gone", ""}).Draw(t, "service")
		s.Secret = rapid.SampledFrom([]string{"web-tls", "other"}).Draw(t, "secret")
		for _, attempts := range []map[string]string{s.Attempts, s.Withheld} {
			if attempts != nil {
				attempts["app"] = rapid.SampledFrom(drawnAttempts).Draw(t, "attempt")
			}
		}
	})
	if rapid.IntRange(0, 9).Draw(t, "injected") == 0 {
		given = nil
	}
	message := rapid.SampledFrom([]string{"", unknownFlag, usageText, otherText}).Draw(t, "message")
	exit := code(rapid.SampledFrom([]int32{0, 1, 2, 137}).Draw(t, "code"))
	state := rapid.SampledFrom([]rotatortest.Change{
		nil, crashes(message, exit), inState(running(time.Second), ended(message, exit)), inState(corev1.ContainerState{Terminated: ended(message, exit)}, nil),
		inState(waiting("ImagePullBackOff"), ended(message, exit)),
	}).Draw(t, "state")
	return pod(fmt.Sprint("pod-", i), rapid.SampledFrom([]string{"web", "api", ""}).Draw(t, "workload"), given, state)
}

func drawSituation(t *rapid.T) Situation {
	s := Situation{Now: noon, Enabled: rapid.Bool().Draw(t, "enabled")}
	for i := range rapid.IntRange(0, 6).Draw(t, "pods") {
		s.Pods = append(s.Pods, drawPod(t, i))
	}
	for _, name := range []string{"web", "api"} {
		if !rapid.Bool().Draw(t, "service exists") {
			continue
		}
		var facts state.Flags
		for _, a := range drawnAttempts {
			if rapid.Bool().Draw(t, "fact exists") {
				f := fact(rapid.SampledFrom([]state.Verdict{state.VerdictWithheld, state.VerdictSuspected, state.VerdictCleared}).Draw(t, "verdict"),
					rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute, 2 * time.Hour}).Draw(t, "age"), rapid.Bool().Draw(t, "on trial"))
				f.Attempt = a
				facts = append(facts, f)
			}
		}
		svc := service(name, facts...)
		if rapid.Bool().Draw(t, "unseen") {
			svc.Seen = nil
		}
		s.Services = append(s.Services, svc)
	}
	return s
}

// TestPropertyOfDeletions: a pod is deleted only if its own crash is blamed on its attempt,
// and that is withheld, as far as the webhooks can know.
func TestPropertyOfDeletions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSituation(t)
		d := Decide(s)
		facts := map[types.UID]Service{}
		for _, svc := range s.Services {
			facts[svc.UID] = svc
		}
		for _, p := range d.Delete {
			template := p.Template.Value()
			assert.True(t, s.Enabled)
			assert.False(t, template.Workload.Bare())
			assert.True(t, p.Crashes != nil && p.Crashes.Containers[0].Waiting && !p.Ready && p.DeletionTimestamp == nil)
			assert.NotContains(t, p.Crashes.Containers[0].Message, otherText[:20])
			a := template.ContainerAttempts()[0]
			assert.False(t, a.Withheld)
			_, blamed := judge(p, a, nil)
			assert.True(t, blamed)
			svc := facts[newNamespace(s).serviceOf(p).UID]
			assert.True(t, svc.Seen.Withholds(a.Attempt))
			assert.True(t, state.FlagsOf(svc.Service).Withholds(a.Attempt))
		}
	})
}

// TestPropertyOfDecisions: deciding again with what was written changes nothing, in
// whatever order the objects come, and nothing is changed that was given.
func TestPropertyOfDecisions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSituation(t)
		d := Decide(s)
		shuffled := s
		shuffled.Pods, shuffled.Services = rapid.Permutation(s.Pods).Draw(t, "pods"), rapid.Permutation(s.Services).Draw(t, "services")
		assert.Equal(t, d, Decide(shuffled))

		kept := written(s, d)
		kept.Pods = s.Pods
		again := Decide(kept)
		assert.Empty(t, again.Changes)
		kept.Memory = again.Memory // what waited for the cache is told now
		assert.Empty(t, Decide(kept).Told)
		assert.Equal(t, d.Withheld, again.Withheld)
		for _, c := range d.Changes {
			assert.LessOrEqual(t, len(state.FlagsOf(&corev1.Service{Status: corev1.ServiceStatus{Conditions: c.Want.Both()}})), state.MaxAttempts)
		}
	})
}
