package deploy

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/servingcert/servingcert/hack/controlplane"
	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/test/integration/harness"
)

var accounts = []string{"servingcert-signer", "servingcert-trust", "servingcert-rotator", "servingcert-webhook"}

// Everything that the API server or a rule has is asked about, so that testdata lists all
// that an account may do, and a right that was not meant shows in a diff.
func TestAccess(t *testing.T) {
	clientset, err := kubernetes.NewForConfig(cluster.AdminConfig())
	require.NoError(t, err)
	questions := everyQuestion(t, clientset)
	anybody := ask(t, clientset, "nobody-in-particular", questions)
	for _, account := range accounts {
		t.Run(account, func(t *testing.T) {
			got := ask(t, clientset, account, questions)
			for line := range anybody {
				delete(got, line)
			}
			compare(t, account, summary(got))
		})
	}
}

// question is one that RBAC answers. A name of "*" stands for any that no rule
// mentions, or for none.
type question struct {
	namespace, group, resource, name, verb string
}

func (q question) attributes() *authorizationv1.ResourceAttributes {
	resource, subresource, _ := strings.Cut(q.resource, "/")
	name := strings.TrimPrefix(q.name, "*")
	return &authorizationv1.ResourceAttributes{
		Namespace: q.namespace, Verb: q.verb, Group: q.group,
		Resource: resource, Subresource: subresource, Name: name,
	}
}

var (
	verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	// signerVerbs are those on signers, which are names and no objects.
	signerVerbs = []string{"approve", "attest", "sign"}
)

// everyQuestion asks for each verb on each resource, in our namespace and in
// another, without a name and by each name that a rule about the resource has,
// and for each verb on signers.
func everyQuestion(t *testing.T, clientset kubernetes.Interface) []question {
	t.Helper()
	_, lists, err := clientset.Discovery().ServerGroupsAndResources()
	require.NoError(t, err)
	rules := ourRules(t, clientset)
	names, lists := namesIn(rules), append(lists, notServed(rules, lists)...)
	seen := map[question]bool{}
	for _, list := range lists {
		group, _, versioned := strings.Cut(list.GroupVersion, "/")
		if !versioned {
			group = ""
		}
		for _, resource := range list.APIResources {
			namespaces := []string{""}
			if resource.Namespaced {
				namespaces = []string{api.DefaultNamespace, "shop"}
			}
			for _, namespace := range namespaces {
				for _, name := range append(names[resource.Name], "*") {
					for _, verb := range verbs {
						seen[question{namespace, group, resource.Name, name, verb}] = true
					}
				}
			}
		}
	}
	for _, name := range append(names["signers"], "*") {
		for _, verb := range signerVerbs {
			seen[question{"", "certificates.k8s.io", "signers", name, verb}] = true
		}
	}
	require.Greater(t, len(seen), 1000)
	return slices.Collect(maps.Keys(seen))
}

// ourRules returns the rules of our roles.
func ourRules(t *testing.T, clientset kubernetes.Interface) []rbacv1.PolicyRule {
	t.Helper()
	var rules []rbacv1.PolicyRule
	for _, account := range accounts {
		role, err := clientset.RbacV1().ClusterRoles().Get(t.Context(), account, metav1.GetOptions{})
		require.NoError(t, err)
		rules = append(rules, role.Rules...)
	}
	roles, err := clientset.RbacV1().Roles(api.DefaultNamespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, role := range roles.Items {
		rules = append(rules, role.Rules...)
	}
	return rules
}

// notServed returns the resources of the rules that the API server does not serve. Whether one is namespaced is not
// known, so it is asked about in namespaces, where a right on all of them counts too.
func notServed(rules []rbacv1.PolicyRule, served []*metav1.APIResourceList) []*metav1.APIResourceList {
	known := map[string]bool{}
	for _, list := range served {
		group, _, versioned := strings.Cut(list.GroupVersion, "/")
		if !versioned {
			group = ""
		}
		for _, resource := range list.APIResources {
			known[group+"/"+resource.Name] = true
		}
	}
	var lists []*metav1.APIResourceList
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				if !known[group+"/"+resource] {
					lists = append(lists, &metav1.APIResourceList{GroupVersion: group + "/", APIResources: []metav1.APIResource{{Name: resource, Namespaced: true}}})
				}
			}
		}
	}
	return lists
}

// namesIn returns the resourceNames of the rules by resource.
func namesIn(rules []rbacv1.PolicyRule) map[string][]string {
	names := map[string][]string{}
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			names[resource] = slices.Compact(slices.Sorted(slices.Values(append(names[resource], rule.ResourceNames...))))
		}
	}
	return names
}

// ask returns the questions that are answered with yes.
func ask(t *testing.T, clientset kubernetes.Interface, account string, questions []question) map[question]bool {
	t.Helper()
	var (
		mu      sync.Mutex
		allowed = map[question]bool{}
		group   errgroup.Group
	)
	group.SetLimit(8)
	for _, q := range questions {
		group.Go(func() error {
			review, err := clientset.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{
					User:               "system:serviceaccount:" + api.DefaultNamespace + ":" + account,
					Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + api.DefaultNamespace, "system:authenticated"},
					ResourceAttributes: q.attributes(),
				},
			}, metav1.CreateOptions{})
			if err == nil && review.Status.Allowed {
				mu.Lock()
				defer mu.Unlock()
				allowed[q] = true
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	return allowed
}

// summary writes one line for each object, or kind of object, with its verbs.
// What is allowed by any name is not repeated for single ones.
func summary(allowed map[question]bool) string {
	lines := map[string][]string{}
	for _, verb := range slices.Concat(verbs, signerVerbs) {
		for q := range allowed {
			anyName := q
			anyName.name = "*"
			if q.verb != verb || q.name != "*" && allowed[anyName] {
				continue
			}
			where := q.namespace
			if where == "" {
				where = "(cluster)"
			}
			group := q.group
			if group == "" {
				group = "core"
			}
			key := fmt.Sprintf("%-18s  %s %s %s", where, group, q.resource, q.name)
			lines[key] = append(lines[key], verb)
		}
	}
	var out []string
	for key, verbs := range lines {
		out = append(out, key+": "+strings.Join(verbs, " "))
	}
	slices.Sort(out)
	return strings.Join(out, "\n") + "\n"
}

func compare(t *testing.T, account, got string) {
	t.Helper()
	file := filepath.Join("testdata", account+".access")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	if !harness.Serves(t, cluster.AdminConfig(), controlplane.ClusterTrustBundles) {
		bundles := regexp.MustCompile(`(?m)^.* clustertrustbundles .*\n`) // asked about as if they were namespaced
		want, got = bundles.ReplaceAll(want, nil), bundles.ReplaceAllString(got, "")
	}
	assert.Equal(t, string(want), got, "rights of %s; if they are meant: go test ./test/integration/deploy -update", account)
}

// A list that resourceNames restrict works exactly with metadata.name selected.
func TestListsByName(t *testing.T) {
	for _, test := range []struct {
		account string
		list    client.ObjectList
		name    string
		allowed bool
	}{
		{"servingcert-webhook", &corev1.SecretList{}, api.ConventionalSecretName, true},
		{"servingcert-webhook", &corev1.SecretList{}, "web-tls", false},
		{"servingcert-webhook", &corev1.SecretList{}, "", false},
		{"servingcert-trust", &corev1.ConfigMapList{}, "", true},
		{"servingcert-trust", &corev1.SecretList{}, api.ConventionalSecretName, false},
		{"servingcert-rotator", &corev1.ConfigMapList{}, "", false},
		{"servingcert-rotator", &corev1.ConfigMapList{}, api.BundleName, true},
		{"servingcert-rotator", &corev1.SecretList{}, api.ConventionalSecretName, false},
		{"servingcert-rotator", &corev1.SecretList{}, api.CASecretName, false},
	} {
		t.Run(fmt.Sprintf("%s %T %s", test.account, test.list, test.name), func(t *testing.T) {
			var options []client.ListOption
			if test.name != "" {
				options = append(options, client.MatchingFields{"metadata.name": test.name})
			}
			err := as(t, test.account).List(t.Context(), test.list, options...)
			if test.allowed {
				assert.NoError(t, err)
			} else {
				assert.True(t, apierrors.IsForbidden(err), "%v", err)
			}
		})
	}
}

// kubectl auth can-i, which an administrator would run, agrees about pods: only the
// rotator lists them, and the signer reads one whose name it knows.
func TestSelfReview(t *testing.T) {
	for verb, allowed := range map[string][]string{
		"get":  {"servingcert-signer"},
		"list": {"servingcert-rotator"},
	} {
		for _, account := range accounts {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "shop", Verb: verb, Resource: "pods"},
			}}
			require.NoError(t, as(t, account).Create(t.Context(), review))
			assert.Equal(t, slices.Contains(allowed, account), review.Status.Allowed, "%s may %s pods", account, verb)
		}
	}
}
