package pods

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Unchecked text is quoted before it reaches a message or a terminal.
func TestOwnersAreQuoted(t *testing.T) {
	controller := true
	for name, want := range map[string]string{
		"web-7d4b9":      "ReplicaSet web-7d4b9",
		"web.v1":         "ReplicaSet web.v1",
		"\x1b[2Jgone":    `ReplicaSet "\x1b[2Jgone"`,
		"a\nReady: True": `ReplicaSet "a\nReady: True"`,
		"a\u202eb":       `ReplicaSet "a\u202eb"`,
		`a"b`:            `ReplicaSet "a\"b"`,
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: "1", Controller: &controller},
		}}}
		assert.Equal(t, want, workloadOf(pod).String())
		pod.OwnerReferences[0].Kind, pod.OwnerReferences[0].Name = name, "x"
		assert.Equal(t, strings.TrimPrefix(want, "ReplicaSet ")+" x", workloadOf(pod).String())
	}
	replicaSet := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Labels:          map[string]string{"pod-template-hash": "7d4b9"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "\x1b[2J-7d4b9", UID: "1", Controller: &controller}},
	}}
	assert.Equal(t, `Deployment "\x1b[2J"`, workloadOf(replicaSet).String(), "and so is the name that follows from it")
	replicaSet.OwnerReferences[0].Name = strings.Repeat("x", 100000)
	assert.True(t, workloadOf(replicaSet).Bare(), "what is longer than a name is no owner")
}

// No text of a pod's creator gets into a printed command.
func TestNoShellWordsInAdvice(t *testing.T) {
	for _, name := range []string{"web;curl${IFS}x|sh;#", "$(id)", "`id`", "-o", "web'", "web web", "WEB"} {
		advice := Workload{APIVersion: "apps/v1", Kind: "StatefulSet", Name: plain(name)}.Advice("shop", "web-0")
		assert.Equal(t, "delete its pods one by one; their controller replaces them: kubectl delete pod web-0 -n shop", advice, name)
	}
	assert.Equal(t, "restart it: kubectl rollout restart statefulset/web -n shop", Workload{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web"}.Advice("shop", "web-0"))
}
