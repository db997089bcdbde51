package doctor

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Pair is an object of the release, and the same in the cluster; Live is nil if it is not
// there.
type Pair struct{ Release, Live *unstructured.Unstructured }

// object names the object.
func (p Pair) object() string {
	name := p.Release.GetName()
	if ns := p.Release.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return p.Release.GetKind() + " " + name
}

// drift returns what of the release is missing or different in the cluster.
func drift(pairs []Pair) []Finding {
	var out []Finding
	for _, p := range pairs {
		id := CheckOfKind(p.Release.GetKind())
		if p.Live == nil {
			out = append(out, found(id, p.object(), "it does not exist").as(lossOf(p.Release.GetKind())))
			continue
		}
		switch p.Release.GetKind() {
		case "ClusterRole", "Role":
			out = append(out, rights(p)...)
			continue
		}
		for _, field := range judged(p.Release.GetKind()) {
			if d := firstDifference(p.Release.Object[field], p.Live.Object[field], field); d != "" {
				out = append(out, found(id, p.object(), "%s", d))
			}
		}
		if p.Release.GetKind() == "Service" { // what asks for a certificate
			if d := firstDifference(annotations(p.Release), annotations(p.Live), "metadata.annotations"); d != "" {
				out = append(out, found(id, p.object(), "%s", d))
			}
		}
	}
	return out
}

func annotations(obj *unstructured.Unstructured) map[string]any {
	out := map[string]any{}
	for key, value := range obj.GetAnnotations() {
		out[key] = value
	}
	return out
}

// CheckOfKind returns the check that objects of the release of a kind belong to.
func CheckOfKind(kind string) ID {
	switch kind {
	case "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding":
		return Rights
	case "MutatingWebhookConfiguration":
		return WebhookConfig
	case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
		return Policies
	}
	return OtherObjects
}

// lossOf returns how much it matters that an object of the kind is missing.
func lossOf(kind string) Level {
	switch kind {
	case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "PodDisruptionBudget", "NetworkPolicy":
		return Warning
	}
	return Error
}

// judged returns the fields of a kind that are compared: what decides how it works.
func judged(kind string) []string {
	switch kind {
	case "MutatingWebhookConfiguration":
		return []string{"webhooks"}
	case "ClusterRoleBinding", "RoleBinding":
		return []string{"roleRef", "subjects"}
	case "ServiceAccount", "Namespace":
		return nil
	}
	return []string{"spec"}
}

// firstDifference returns where the cluster's value first lacks something of the release's,
// and what; "" if all of it is there. What the cluster has beyond it are defaults, or fields
// that others own.
func firstDifference(release, live any, at string) string {
	switch want := release.(type) {
	case map[string]any:
		have, _ := live.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if d := firstDifference(want[key], have[key], at+"."+key); d != "" {
				return d
			}
		}
		return ""
	case []any:
		have, _ := live.([]any)
		for i := range want {
			if i >= len(have) {
				return fmt.Sprintf("%s is a list of %d, and that of the release is one of %d", at, len(have), len(want))
			}
			if d := firstDifference(want[i], have[i], fmt.Sprintf("%s[%d]", at, i)); d != "" {
				return d
			}
		}
		if len(have) > len(want) {
			return fmt.Sprintf("%s is a list of %d, and that of the release is one of %d", at, len(have), len(want))
		}
		return ""
	}
	if want, have := text(release), text(live); want != have {
		return fmt.Sprintf("%s is %s, and that of the release is %s", at, shown(have), shown(want))
	}
	return ""
}

// text returns a scalar as JSON, so that numbers of different types are equal.
func text(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(data)
}

// shown returns a value short enough for a message.
func shown(value string) string {
	const most = 60
	if value == "null" {
		return "not set"
	}
	if len(value) > most {
		return strings.ToValidUTF8(value[:most], "") + "…"
	}
	return value
}

// rights returns what a role grants less, or more, than that of the release.
func rights(p Pair) []Finding {
	want, err := rulesOf(p.Release)
	if err != nil {
		return []Finding{found(Rights, p.object(), "rules of the release: %v", err)}
	}
	have, err := rulesOf(p.Live)
	if err != nil {
		return []Finding{found(Rights, p.object(), "rules: %v", err)}
	}
	var out []Finding
	if lacks := beyond(want, have); len(lacks) > 0 {
		out = append(out, found(Rights, p.object(), "it does not grant %s", few(lacks)))
	}
	if more := beyond(have, want); len(more) > 0 {
		out = append(out, found(Rights, p.object(), "it grants more than the release: %s", few(more)).as(Warning))
	}
	return out
}

func rulesOf(obj *unstructured.Unstructured) ([]rbacv1.PolicyRule, error) {
	var role rbacv1.ClusterRole // a Role has its rules at the same place
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &role); err != nil {
		return nil, err
	}
	return role.Rules, nil
}

// right is one thing that a rule grants. An empty name stands for all objects.
type right struct{ group, resource, name, verb string }

func (r right) String() string {
	text := r.verb + " " + r.resource
	if r.group != "" {
		text += "." + r.group
	}
	if r.name != "" {
		text += " " + r.name
	}
	return text
}

// expand returns all that the rules grant one by one.
func expand(rules []rbacv1.PolicyRule) []right {
	var out []right
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, verb := range r.Verbs {
			for _, url := range r.NonResourceURLs {
				out = append(out, right{resource: url, verb: verb})
			}
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, name := range names {
						out = append(out, right{group, resource, name, verb})
					}
				}
			}
		}
	}
	return out
}

// covers reports whether a grants b.
func (r right) covers(b right) bool {
	all := func(have, want string) bool { return have == want || have == rbacv1.VerbAll }
	return all(r.group, b.group) && all(r.resource, b.resource) && all(r.verb, b.verb) && (r.name == "" || r.name == b.name)
}

// beyond returns what a grants and b does not, sorted.
func beyond(a, b []rbacv1.PolicyRule) []string {
	granted := expand(b)
	var out []string
	for _, r := range expand(a) {
		if !slices.ContainsFunc(granted, func(have right) bool { return have.covers(r) }) {
			out = append(out, r.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// few returns the first of a list.
func few(list []string) string {
	const most = 5
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}
