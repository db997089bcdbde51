package cli

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// A rotation is asked for once and followed, each change in a line.
func TestRotationIsFollowed(t *testing.T) {
	s := newSystem(t)
	s.ca(t, stable())
	c := start(t, plane.KubeconfigFile(), "rotate-ca", "-n", s.namespace, "--reason", "key ceremony")
	require.Equal(t, "overlap:key ceremony", s.asked(t))
	mine := []string{api.CARotation, "overlap:key ceremony", api.CARotationOutcome, "generation 2 was made and does not sign yet"}
	waiting := with(stable(), append(mine, api.CAPhase, api.PhaseWait, api.CANextGeneration, "2")...)

	s.ca(t, with(waiting, api.CAWaitingFor, "37 of 40 targets hold the new root; not: ConfigMap shop/x: Pending: not yet"))
	c.shown(t, "  Wait: generation 1 signs, generation 2 is next; 37 of 40 targets hold the new root; not: ConfigMap shop/x: Pending: not yet\n")
	s.ca(t, with(waiting, api.CAWaitingFor, "3 of 3 targets hold the new root; pods get it by 2026-03-01T12:05:00Z"))
	c.shown(t, "pods get it by 2026-03-01T12:05:00Z\n")
	signs := with(stable(), api.CARotation, mine[1], api.CARotationOutcome, "generation 2 was made and signs", api.CAGeneration, "2", api.CALeaves, "3")
	s.ca(t, with(signs, api.CAPhase, api.PhaseReissue, api.CAReplaced, "1"))
	c.shown(t, "  Reissue: generation 2 signs, 1 of 3 certificates are signed by it, 2 left\n")
	s.ca(t, with(signs, api.CAPhase, api.PhaseRetire, api.CAReplaced, "3"))

	r, err := c.wait()
	require.NoError(t, err)
	assert.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, "requested: overlap \"key ceremony\"\n")
	assert.Contains(t, r.out, "done: all 3 certificates are signed by generation 2\n")
	assert.Contains(t, r.out, "served: no pod mounts a certificate\n")

	before := s.status(t).ResourceVersion
	again := cli(t, "rotate-ca", "-n", s.namespace, "--reason", "key ceremony")
	assert.Zero(t, again.code, again.err)
	assert.Contains(t, again.out, "already requested; generation 2 was made and signs\n")
	assert.Equal(t, before, s.status(t).ResourceVersion, "nothing is written")
}

func TestRotationThatIsRefused(t *testing.T) {
	s := newSystem(t)
	s.ca(t, stable())
	c := start(t, plane.KubeconfigFile(), "rotate-ca", "-n", s.namespace, "--reason", "fourth")
	require.Equal(t, "overlap:fourth", s.asked(t))
	refusal := "refused: clients that hold only generation 1 could not verify a new generation"
	s.ca(t, with(stable(), api.CARotation, "overlap:fourth", api.CARotationOutcome, refusal))
	r, err := c.wait()
	require.NoError(t, err)
	assert.Equal(t, 1, r.code)
	assert.Equal(t, "kubectl servingcert: "+refusal+"\n", r.err)

	again := cli(t, "rotate-ca", "-n", s.namespace, "--reason", "fourth")
	assert.Equal(t, 1, again.code, "it was refused, and asking again asks for nothing new")
	assert.Contains(t, again.err, refusal)
}

// The status is written again and again while the request is made.
func TestRequestSurvivesConflicts(t *testing.T) {
	s := newSystem(t)
	s.ca(t, stable())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			_ = s.publish(ctx, api.CAStatusName, with(stable(), api.CAWaitingFor, strconv.Itoa(i))) // conflicts with the command, too
		}
	}()
	r := cli(t, "rotate-ca", "-n", s.namespace, "--reason", "busy", "--wait=false")
	stop()
	<-done
	assert.Zero(t, r.code, r.err)
	assert.Equal(t, "overlap:busy", s.asked(t))
}

func TestProceed(t *testing.T) {
	s := newSystem(t)
	s.ca(t, stable())
	r := cli(t, "rotate-ca", "-n", s.namespace, "--proceed", "2")
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.err, "generation 2 is not waiting: Stable: generation 1 signs")

	s.ca(t, with(stable(), api.CAPhase, api.PhaseWait, api.CANextGeneration, "2"))
	r = cli(t, "rotate-ca", "-n", s.namespace, "--proceed", "3")
	assert.Equal(t, 1, r.code)
	assert.Empty(t, s.status(t).Annotations)
	c := start(t, plane.KubeconfigFile(), "rotate-ca", "-n", s.namespace, "--proceed", "2")
	c.shown(t, "generation 2 may sign although some targets do not hold its root\n")
	assert.Equal(t, map[string]string{api.AnnotationPromoteDespite: "2"}, s.status(t).Annotations)
	s.ca(t, with(stable(), api.CAGeneration, "2"))
	r, err := c.wait()
	require.NoError(t, err)
	assert.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, "done: generation 2 signs")
}

// A rotation is over when the pods serve the new certificates.
func TestRotationIsFollowedUntilItIsServed(t *testing.T) {
	s, ns := newSystem(t), newNamespace(t, "shop", nil)
	for i, name := range []string{"web", "api", "legacy", "away"} {
		makeService(t, ns, name)
		require.NoError(t, setIssued(t.Context(), ns, name, hash(i)))
	}
	setServing(t, ns, "web", metav1.ConditionFalse, api.ServingPropagating, "a new certificate is in the Secret", time.Now())
	setServing(t, ns, "legacy", metav1.ConditionFalse, api.ServingStale, "an older certificate is served by Deployment legacy: restart it", time.Now())
	setServing(t, ns, "away", metav1.ConditionFalse, api.ServingNoConsumers, "no pod", time.Now())
	s.ca(t, stable())
	c := start(t, plane.KubeconfigFile(), "rotate-ca", "-n", s.namespace, "--reason", "served")
	require.Equal(t, "overlap:served", s.asked(t))
	s.ca(t, with(stable(), api.CARotation, "overlap:served", api.CAGeneration, "2", api.CAPhase, api.PhaseRetire, api.CALeaves, "4", api.CAReplaced, "4"))
	c.shown(t, "the pods of 1 of 3 Services serve their new certificate; not yet: "+ns+"/web\n")
	last := time.Now().Add(time.Hour).Truncate(time.Second)
	setServing(t, ns, "web", metav1.ConditionTrue, api.ServingCurrent, "every pod serves it", last)
	r, err := c.wait()
	require.NoError(t, err)
	assert.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, "served: by every pod of 2 of 3 Services; the last one, "+ns+"/web, since "+last.UTC().Format(time.RFC3339)+"\n")
	assert.Contains(t, r.out, "not served: "+ns+"/legacy: an older certificate is served by Deployment legacy: restart it\n")
}

// A rotation that breaks clients says whom, and is not done without a word.
func TestDistrustSaysWhoBreaks(t *testing.T) {
	s, ns := newSystem(t), newNamespace(t, "shop", nil)
	s.ca(t, stable())
	require.NoError(t, s.publish(t.Context(), api.TrustStatusName, map[string]string{api.TrustTargets: "7"}))
	makeService(t, ns, "web")
	require.NoError(t, setIssued(t.Context(), ns, "web", hash(1)))
	makePod(t, ns, "server", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "web-tls"}})
	makePod(t, ns, "client", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: api.BundleName}}})
	makePod(t, ns, "other", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "unrelated"}})

	args := []string{"rotate-ca", "-n", s.namespace, "--distrust-now", "--reason", "stolen"}
	r := cli(t, args...)
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.err, "cannot ask for confirmation: standard input is not a terminal; use --yes to skip the question. Nothing was changed")
	assert.Contains(t, r.out, "  Services whose certificates are replaced: ")
	assert.Contains(t, r.out, ns+"/web")
	assert.Contains(t, r.out, "  workloads that have not been seen to reload a certificate, and may break until they are restarted: 1: "+ns+" Pod/server\n")
	assert.Contains(t, r.out, "  workloads that mount only the bundle, and have the new one within seconds (92 s at most): 1: "+ns+" Pod/client\n")
	assert.NotContains(t, r.out, "Pod/other")
	assert.Contains(t, r.out, "  targets that hold the bundle (ConfigMaps, webhooks, CRDs, APIServices): 7\n")
	assert.Empty(t, s.status(t).Annotations, "nothing is changed")

	c := start(t, plane.KubeconfigFile(), append(args, "--yes")...)
	require.Equal(t, "distrust-now:stolen", s.asked(t))
	s.ca(t, with(stable(), api.CAGeneration, "2", api.CARotation, "distrust-now:stolen", api.CARotationOutcome, "generation 2 was made and signs"))
	c.shown(t, "Services have a new certificate\n")
	require.NoError(t, setIssued(t.Context(), ns, "web", hash(2)))
	r, err := c.wait()
	require.NoError(t, err)
	assert.Zero(t, r.code, r.err)
	assert.Contains(t, r.out, "done: a new certificate for each Service that had one (")
}

func TestReplaceLost(t *testing.T) {
	t.Run("what would be done", func(t *testing.T) {
		s := newSystem(t)
		s.ca(t, stable())
		for _, mode := range []string{"overlap", "distrust-now"} {
			args := []string{"rotate-ca", "-n", s.namespace, "--reason", "x", "--dry-run"}
			if mode != "overlap" {
				args = append(args, "--"+mode)
			}
			r := cli(t, args...)
			assert.Zero(t, r.code, r.err)
			assert.Regexp(t, `(?m)^would be requested: \S+ "x"$`, r.out)
			assert.Empty(t, s.status(t).Annotations)
		}
	})
	t.Run("one that is", func(t *testing.T) {
		s := newSystem(t)
		s.ca(t, with(stable(), api.CAProblem, "CALost: Secret servingcert-ca is missing"))
		r := cli(t, "rotate-ca", "-n", s.namespace, "--replace-lost", "--reason", "x", "--yes", "--wait=false")
		assert.Zero(t, r.code, r.err)
		assert.Contains(t, r.out, "If you have a backup of Secret servingcert-ca, restore it instead: that breaks no client.")
		assert.Equal(t, "replace-lost:x", s.asked(t))
	})
	t.Run("one whose status is lost as well", func(t *testing.T) {
		s, ns := newSystem(t), newNamespace(t, "shop", nil)
		r := cli(t, "rotate-ca", "-n", s.namespace, "--replace-lost", "--reason", "x", "--yes", "--wait=false")
		assert.Equal(t, 1, r.code)
		assert.Contains(t, r.err, "servingcert is not installed there", "nobody says that a CA was lost")

		makeService(t, ns, "web")
		require.NoError(t, setReady(t.Context(), ns, "web", metav1.ConditionFalse, "CALost", "Secret servingcert-ca is missing"))
		r = cli(t, "rotate-ca", "-n", s.namespace, "--replace-lost", "--reason", "x", "--yes", "--wait=false")
		assert.Zero(t, r.code, r.err)
		assert.Equal(t, "replace-lost:x", s.asked(t))
	})
}

func makePod(t *testing.T, namespace, name string, volume corev1.VolumeSource, owners ...metav1.OwnerReference) {
	t.Helper()
	require.Eventually(t, func() bool { // the ServiceAccount "default" comes a moment after the namespace
		_, err := admin.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "c", Image: "example.com/c"}},
				Volumes:    []corev1.Volume{{Name: "v", VolumeSource: volume}},
			},
		}, metav1.CreateOptions{})
		return err == nil
	}, patience, 50*time.Millisecond)
}
