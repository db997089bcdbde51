package pods

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/api"
)

// Workload is the controller of pods of one template. The zero value stands for
// bare pods, which have no controller.
type Workload struct {
	APIVersion, Kind, Name string
	UID                    types.UID // empty for a Deployment: only its name is known
}

// workloadOf returns the pod's controller, or the Deployment above it if the controller is a
// ReplicaSet named NAME-HASH, as a Deployment names its own.
func workloadOf(pod *corev1.Pod) Workload {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || len(api.Owners([]metav1.OwnerReference{*owner})) == 0 {
		return Workload{}
	}
	w := Workload{plain(owner.APIVersion), plain(owner.Kind), plain(owner.Name), owner.UID}
	hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if w.is("ReplicaSet") && hash != "" {
		if name, ok := strings.CutSuffix(owner.Name, "-"+hash); ok && name != "" {
			return Workload{APIVersion: owner.APIVersion, Kind: "Deployment", Name: plain(name)}
		}
	}
	return w
}

// plain returns the text in a form that is safe on a terminal. The API server only checks that an
// owner reference is not empty: whoever may create pods can put escape sequences and any amount of
// text there. Text that is not valid in a checked name is quoted and shortened.
func plain(text string) string {
	odd := func(r rune) bool { return r <= ' ' || r > unicode.MaxASCII || r == '"' || r == '\\' || r == 0x7f }
	if len(text) > validation.DNS1123SubdomainMaxLength || strings.ContainsFunc(text, odd) {
		return beginning(strconv.QuoteToASCII(api.Shorten(text, maxOwnerText)), maxOwner)
	}
	return text
}

// maxOwnerText is the number of characters that are shown of an invalid name.
const maxOwnerText = 64

// Restartable reports whether kubectl rollout restart supports its kind. A name that is not a DNS
// name does not exist, and could contain shell code for whoever copies a command with it.
func (w Workload) Restartable() bool {
	return api.Restartable(w.Kind) && w.is(w.Kind) && len(validation.IsDNS1123Subdomain(w.Name)) == 0
}

func (w Workload) is(kind string) bool {
	return w.APIVersion == appsv1.SchemeGroupVersion.String() && w.Kind == kind
}

// Bare reports whether it stands for pods without a controller.
func (w Workload) Bare() bool { return w == Workload{} }

// Node reports whether it is a node, which runs static pods. Each mirror pod belongs to one.
func (w Workload) Node() bool {
	return w.APIVersion == corev1.SchemeGroupVersion.String() && w.Kind == "Node"
}

// String returns the workload's kind and name.
func (w Workload) String() string {
	if w.Bare() {
		return "pods without a controller"
	}
	return w.Kind + " " + w.Name
}

// Compare orders workloads by kind and name.
func (w Workload) Compare(other Workload) int {
	return cmp.Or(cmp.Compare(w.Kind, other.Kind), cmp.Compare(w.Name, other.Name), cmp.Compare(w.UID, other.UID), cmp.Compare(w.APIVersion, other.APIVersion))
}

// Reference returns a reference to the workload for an event. uid is its UID, for a workload of
// which the pods only know the name.
func (w Workload) Reference(namespace string, uid types.UID) *corev1.ObjectReference {
	if w.UID != "" {
		uid = w.UID
	}
	return &corev1.ObjectReference{APIVersion: w.APIVersion, Kind: w.Kind, Namespace: namespace, Name: w.Name, UID: uid}
}

// Advice states how a person replaces the workload's pods. pod is the name of one of them.
func (w Workload) Advice(namespace, pod string) string {
	switch {
	case w.Bare():
		return "recreate it"
	case w.Node():
		return fmt.Sprintf("check whether the files on node %s match the Secret, then restart the static pod on the node", w.Name)
	case w.Restartable():
		return "restart it: " + api.CommandText([]string{w.Name}, "kubectl", "rollout", "restart", strings.ToLower(w.Kind)+"/"+w.Name, "-n", namespace)
	case w.APIVersion == batchv1.SchemeGroupVersion.String() && w.Kind == "Job":
		return "delete it and create it again (the next Job of a CronJob is injected automatically)"
	}
	return "delete its pods one by one; their controller replaces them: " + api.CommandText([]string{pod}, "kubectl", "delete", "pod", pod, "-n", namespace)
}
