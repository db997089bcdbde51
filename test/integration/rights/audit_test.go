package rights

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/servingcert/servingcert/deploy"
	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// right is what a rule of a role allows: one verb on one resource, or on one object
// of it. Of those of a Role, namespace is that of the Role.
type right struct {
	program, namespace, group, resource, name, verb string
}

func (r right) String() string {
	group, name := r.group, r.name
	if group == "" {
		group = "core"
	}
	if name == "" {
		name = "*"
	}
	return fmt.Sprintf("%s: %s %s %s %s %s", r.program, r.namespace, group, r.resource, name, r.verb)
}

// granted returns what install.yaml's roles, and those of optionalObjects, allow the programs.
func granted(t *testing.T) []right {
	t.Helper()
	objects, err := deploy.Objects()
	require.NoError(t, err)
	optional, err := harness.Optional(backendTLS)
	require.NoError(t, err)
	objects = append(objects, optional...)
	bound := map[string][]string{} // programs, by the role
	for _, obj := range objects {
		if obj.GetKind() != "ClusterRoleBinding" && obj.GetKind() != "RoleBinding" {
			continue
		}
		var binding rbacv1.RoleBinding // a ClusterRoleBinding has the same subjects
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &binding))
		role := binding.Namespace + "/" + binding.RoleRef.Name
		for _, subject := range binding.Subjects {
			program := strings.TrimPrefix(subject.Name, "servingcert-")
			require.Contains(t, programs, program, "a binding of nobody")
			bound[role] = append(bound[role], program)
		}
	}
	var rights []right
	for _, obj := range objects {
		if obj.GetKind() != "ClusterRole" && obj.GetKind() != "Role" {
			continue
		}
		var role rbacv1.Role // a ClusterRole has the same rules
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &role))
		for _, program := range bound[role.Namespace+"/"+role.Name] {
			for _, rule := range role.Rules {
				rights = append(rights, rightsOf(rule, right{program: program, namespace: role.Namespace})...)
			}
		}
	}
	return rights
}

func rightsOf(rule rbacv1.PolicyRule, of right) []right {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var rights []right
	for _, of.group = range rule.APIGroups {
		for _, of.resource = range rule.Resources {
			for _, of.name = range names {
				for _, of.verb = range rule.Verbs {
					rights = append(rights, of)
				}
			}
		}
	}
	return rights
}

// uses reports whether the request needed the right, and was allowed: that an object
// is not there, or has changed, is not about rights.
func (r right) uses(e controlplane.AuditEvent) bool {
	resource := e.Object.Resource
	if e.Object.Subresource != "" {
		resource += "/" + e.Object.Subresource
	}
	if e.User.Username != accountOf(r.program) || isRefused(e) {
		return false
	}
	writes := slices.Contains([]string{"create", "patch", "update"}, e.Verb)
	switch r.verb {
	case "attest": // asked about where a ClusterTrustBundle is written
		return writes && resource == "clustertrustbundles"
	case "sign": // where a certificate is
		return writes && (resource == "podcertificaterequests/status" || resource == "certificatesigningrequests/status")
	case "approve":
		return writes && resource == "certificatesigningrequests/approval"
	}
	// A patch that creates, server-side apply, needs the right to create too.
	verb := e.Verb == r.verb || r.verb == "create" && e.Verb == "patch" && e.Status.Code == http.StatusCreated
	return verb && r.group == e.Object.Group && r.resource == resource &&
		(r.name == "" || r.name == e.Object.Name) && (r.namespace == "" || r.namespace == e.Object.Namespace)
}

// of tells whether a right is to what a feature serves, or needed for nothing else.
func (r right) of(feature controlplane.Feature) bool {
	resource, _, _ := strings.Cut(r.resource, "/")
	if gvr := feature.Resource(feature.Minor); r.group == gvr.Group && resource == gvr.Resource {
		return true
	}
	switch feature.Name {
	case controlplane.ClusterTrustBundles.Name:
		return r.verb == "attest"
	case controlplane.PodCertificates.Name: // the signer reads the pod of a request
		return r.program == "signer" && r.group == "" && r.resource == "pods"
	}
	return false
}

// unused returns the rights that no request needed.
func unused(rights []right, events []controlplane.AuditEvent) []string {
	var out []string
	for _, r := range rights {
		if !slices.ContainsFunc(events, r.uses) {
			out = append(out, r.String())
		}
	}
	return out
}

// isRefused: by rights or by a policy.
func isRefused(e controlplane.AuditEvent) bool {
	switch e.Status.Code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// refused returns the requests that were refused, and why.
func refused(events []controlplane.AuditEvent) []string {
	var out []string
	for _, e := range events {
		if isRefused(e) {
			out = append(out, fmt.Sprintf("%s: %s %s: %s", e.User.Username, e.Verb, e.RequestURI, e.Status.Message))
		}
	}
	return out
}
