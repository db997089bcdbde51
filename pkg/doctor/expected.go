package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/servingcert/servingcert/pkg/api"
)

// Expected returns the objects of the release in a namespace as they have to be for processes with
// the flags and the ServiceAccounts of these Deployments, which are by name: what a flag turns off
// needs no rights, and ports are those that the webhook has. The objects that it changes are copies. An error is of an object that is not what
// its kind says.
func Expected(release []*unstructured.Unstructured, namespace string, deployments map[string]*appsv1.Deployment) ([]*unstructured.Unstructured, error) {
	accounts := accountsOf(namespace, deployments)
	expected := make([]*unstructured.Unstructured, len(release))
	for i, obj := range release {
		obj = obj.DeepCopy()
		accounts.rename(obj)
		renumber(obj, deployments[namePrefix+"webhook"])
		process := strings.TrimPrefix(obj.GetName(), namePrefix)
		if d := deployments[obj.GetName()]; d != nil && obj.GetKind() == "ClusterRole" {
			rules, err := rulesOf(obj)
			if err != nil {
				return nil, fmt.Errorf("ClusterRole %s: %w", obj.GetName(), err)
			}
			if err := setRules(obj, needed(rules, process, flagsOf(d))); err != nil {
				return nil, fmt.Errorf("ClusterRole %s: %w", obj.GetName(), err)
			}
		}
		expected[i] = obj
	}
	return expected, nil
}

// namePrefix is what the names of the processes' objects begin with.
const namePrefix = "servingcert-"

func setRules(obj *unstructured.Unstructured, rules []rbacv1.PolicyRule) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&rbacv1.ClusterRole{Rules: rules})
	if err == nil {
		obj.Object["rules"] = content["rules"]
	}
	return err
}

// flags are those that a process was given, without their dashes.
type flags map[string]string

// flagsOf returns the flags of the first container, as Go's packages for flags read them; of those that
// are given twice, the last.
func flagsOf(d *appsv1.Deployment) flags {
	given := flags{}
	if len(d.Spec.Template.Spec.Containers) == 0 {
		return given
	}
	args := d.Spec.Template.Spec.Containers[0].Args
	for i, arg := range args {
		name, value, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case !strings.HasPrefix(arg, "-"):
			continue
		case !has && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-"):
			value = args[i+1]
		}
		given[name] = value
	}
	return given
}

// off reports whether the flag says false, or the number 0.
func (f flags) off(name string) bool {
	value, given := f[name]
	on, err := strconv.ParseBool(value)
	return given && err == nil && !on
}

// without reports whether the bundle is not kept in one of these kinds of target.
func (f flags) without(target string) bool {
	targets, given := f["targets"]
	return given && !slices.Contains(strings.Split(targets, ","), target)
}

// optional are the rights that a process needs only as long as a flag does not turn something off.
// The templates of the chart have the same conditions.
var optional = slices.Concat(optionalOfTargets(), []optionalRights{
	{"signer", func(f flags) bool { return f.off("csr") }, slices.Concat(
		rightsOn("certificates.k8s.io", "certificatesigningrequests", "", "get", "list", "watch"),
		rightsOn("certificates.k8s.io", "certificatesigningrequests/approval", "", "update"),
		rightsOn("certificates.k8s.io", "certificatesigningrequests/status", "", "patch"),
		rightsOn("certificates.k8s.io", "signers", "", "approve"),
		rightsOn("authorization.k8s.io", "subjectaccessreviews", "", "create"),
	)},
	{"rotator", func(f flags) bool { return f.off("wake") }, slices.Concat(
		rightsOn("", "configmaps", "", "list", "watch"), rightsOn("", "pods", "", "patch"))},
	{"rotator", func(f flags) bool { return f.off("correct-flags") }, rightsOn("", "pods", "", "delete")},
	{"rotator", func(f flags) bool { return f.off("verify-consumers") || f.off("max-restarts") }, slices.Concat(
		rightsOn("", "services", "", "get"), rightsOn("policy", "poddisruptionbudgets", "", "list"),
		rightsOn("apps", "deployments", "", "patch"), rightsOn("apps", "statefulsets", "", "patch"), rightsOn("apps", "daemonsets", "", "patch"))},
	{"trust", func(f flags) bool { return f.without("NamespaceConfigMap") }, rightsOn("", "configmaps", "", "create")},
	{"trust", func(f flags) bool { return f.without("ClusterTrustBundle") }, slices.Concat(
		rightsOn("certificates.k8s.io", "clustertrustbundles", "", "list", "watch", "create", "patch"),
		rightsOn("certificates.k8s.io", "signers", "", "attest"))},
})

type optionalRights struct {
	process string
	off     func(flags) bool
	rights  []right
}

func optionalOfTargets() (all []optionalRights) {
	for _, t := range api.BundleTargets() {
		off := func(f flags) bool { return f.without(t.Kind) }
		all = append(all, optionalRights{"trust", off, rightsOn(t.Group, t.Resource, "", "get", "list", "watch", "patch")})
	}
	return all
}

// namespaceBundle are the rights by which the bundle is written into opted-in namespaces, where
// those to all ConfigMaps are not needed.
var namespaceBundle = rightsOn("", "configmaps", "servingcert-ca.crt", "get", "list", "watch", "patch")

func rightsOn(group, resource, name string, verbs ...string) (rights []right) {
	for _, verb := range verbs {
		rights = append(rights, right{group, resource, name, verb})
	}
	return rights
}

// needed returns the rules that a process needs of those of the release.
func needed(rules []rbacv1.PolicyRule, process string, f flags) []rbacv1.PolicyRule {
	var unneeded []right
	for _, o := range optional {
		if o.process == process && o.off(f) {
			unneeded = append(unneeded, o.rights...)
		}
	}
	rights := slices.DeleteFunc(expand(rules), func(r right) bool {
		return slices.ContainsFunc(unneeded, func(u right) bool { return u.covers(r) })
	})
	if process == "trust" && f.without("ConfigMap") && !f.without("NamespaceConfigMap") {
		rights = append(rights, namespaceBundle...)
	}
	out := make([]rbacv1.PolicyRule, len(rights))
	for i, r := range rights {
		out[i] = rbacv1.PolicyRule{APIGroups: []string{r.group}, Resources: []string{r.resource}, Verbs: []string{r.verb}}
		if r.name != "" {
			out[i].ResourceNames = []string{r.name}
		}
	}
	return out
}

// accounts are the ServiceAccounts of the processes whose names are not those of the release.
type accounts struct {
	namespace string
	names     map[string]string // by the release's
	users     *strings.Replacer // in expressions of policies
}

func accountsOf(namespace string, deployments map[string]*appsv1.Deployment) accounts {
	a := accounts{namespace: namespace, names: map[string]string{}}
	var pairs []string
	for _, process := range components {
		d := deployments[namePrefix+process]
		if d == nil || d.Spec.Template.Spec.ServiceAccountName == "" {
			continue
		}
		name, user := d.Spec.Template.Spec.ServiceAccountName, "system:serviceaccount:"+namespace+":"
		a.names[namePrefix+process] = name
		pairs = append(pairs, "'"+user+namePrefix+process+"'", "'"+user+name+"'")
	}
	a.users = strings.NewReplacer(pairs...)
	return a
}

// rename names the ServiceAccounts in an object of the release as they are.
func (a accounts) rename(obj *unstructured.Unstructured) {
	name, known := a.names[obj.GetName()]
	switch obj.GetKind() {
	case "ServiceAccount":
		if known {
			obj.SetName(name)
		}
	case "ClusterRoleBinding", "RoleBinding":
		subjects, _ := obj.Object["subjects"].([]any)
		for _, subject := range subjects {
			s, _ := subject.(map[string]any)
			is, _ := s["name"].(string)
			if to, known := a.names[is]; known && s["namespace"] == a.namespace {
				s["name"] = to
			}
		}
	case "ValidatingAdmissionPolicy":
		obj.Object["spec"] = a.inText(obj.Object["spec"])
	}
}

// inText renames users in all texts of a value.
func (a accounts) inText(value any) any {
	switch v := value.(type) {
	case string:
		return a.users.Replace(v)
	case []any:
		for i := range v {
			v[i] = a.inText(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = a.inText(v[key])
		}
	}
	return value
}

// webhookPorts are the ports of the release's webhook, by the flag that sets each, as in ADDRESS:PORT.
var webhookPorts = map[string]string{"port": "9443", "metrics-addr": "8443", "health-addr": "8081"}

// renumber sets the ports of the webhook in an object of the release to those of its Deployment.
func renumber(obj *unstructured.Unstructured, webhook *appsv1.Deployment) {
	of := map[string][]string{
		"MutatingWebhookConfiguration servingcert": {"port"}, "Service servingcert-webhook": {"port"}, "NetworkPolicy servingcert-webhook": {"port", "metrics-addr", "health-addr"},
	}[obj.GetKind()+" "+obj.GetName()]
	if webhook == nil {
		return
	}
	ports, given := map[string]int64{}, flagsOf(webhook)
	for _, flag := range of {
		value := given[flag]
		if port, err := strconv.ParseInt(value[strings.LastIndex(value, ":")+1:], 10, 32); err == nil {
			ports[webhookPorts[flag]] = port
		}
	}
	for _, field := range []string{"spec", "webhooks"} {
		if value, has := obj.Object[field]; has && len(ports) > 0 {
			obj.Object[field] = withPorts(value, ports)
		}
	}
}

// withPorts replaces numbers in a value.
func withPorts(value any, ports map[string]int64) any {
	switch v := value.(type) {
	case int64, float64:
		if port, has := ports[fmt.Sprint(v)]; has {
			return port
		}
	case []any:
		for i := range v {
			v[i] = withPorts(v[i], ports)
		}
	case map[string]any:
		for key := range v {
			v[key] = withPorts(v[key], ports)
		}
	}
	return value
}
