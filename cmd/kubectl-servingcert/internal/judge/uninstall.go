package judge

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/servingcert/servingcert/pkg/api"
)

// UninstallSituation is what is known before servingcert is uninstalled.
type UninstallSituation struct {
	System string // the namespace of servingcert itself
	// Backup is the content of the file that BackupFile names; BackupFile is "" if none was given.
	BackupFile string
	Backup     []byte
	// CA is the Secret of the CA; nil if there is none, or CAErr says why it was not read.
	CA       *corev1.Secret
	CAErr    error
	Lost     string // the problem that the signer reports if there is no CA that could sign
	Webhook  bool   // there is a webhook configuration of servingcert
	Services []Service
	// Bundles are the namespaces with a ConfigMap of the bundle.
	Bundles []string
}

// UninstallAdvice is what a person is told before.
type UninstallAdvice struct {
	Backup Finding
	Works  []string // what keeps working, and for how long
	Stops  []string
	Delete []string // commands, in their order
	Stays  []Remainder
}

// Remainder is what the deletion of servingcert leaves behind.
type Remainder struct {
	What    string
	Command string // which removes it, once nothing uses it
}

// Uninstall returns what happens when servingcert is uninstalled. The texts are not
// escaped.
func Uninstall(s UninstallSituation) UninstallAdvice {
	namespaces := map[string]bool{}
	certificates := 0
	for _, service := range s.Services {
		if service.HoldingSecret() != "" {
			certificates++
			namespaces[service.Namespace] = true
		}
	}
	return UninstallAdvice{
		Backup: judgeBackup(s),
		Works: []string{
			fmt.Sprintf("the certificates of %s in %s, until they end: their Secrets stay, and pods keep serving them", Count(certificates, "Service"), Count(len(namespaces), "namespace")),
			"pods that run, and pods that were injected and are started again on their node",
			"clients: the bundle stays where it was written",
		},
		Stops: append([]string{
			"renewal: each certificate ends at the time that kubectl servingcert status -A shows",
			"injection: new pods start without certificate, flags and files",
		}, podKeysEnd(s.Services)...),
		Delete: deletion(s),
		Stays:  remainders(s, certificates, slices.Sorted(maps.Keys(namespaces))),
	}
}

// podKeysEnd is a line about Services whose pods make their keys, if there are any.
func podKeysEnd(services []Service) []string {
	n := 0
	for _, s := range services {
		if s.PodKeys {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s whose pods make their keys: a pod that is created later gets no certificate, and does not start if it was injected before", Count(n, "Service"))}
}

func judgeBackup(s UninstallSituation) Finding {
	secret := fmt.Sprintf("Secret %s/%s", s.System, api.CASecretName)
	save := fmt.Sprintf("kubectl -n %s get secret %s -o yaml > FILE, and then --backup FILE", s.System, api.CASecretName)
	reason, _, _ := strings.Cut(s.Lost, ":")
	switch {
	case s.CAErr != nil:
		return Finding{VerdictUnknown, fmt.Sprintf("%s cannot be read, so that no backup can be compared: %v", secret, s.CAErr)}
	case s.CA == nil && s.Lost != "":
		return Finding{VerdictFailed, fmt.Sprintf("%s does not exist, although the CA has signed before: %s. Restore it from a backup, or everything must trust a new CA after the next installation", secret, s.Lost)}
	case s.CA != nil && IsLost(reason):
		return Finding{VerdictFailed, fmt.Sprintf("%s holds no CA that could be kept: %s. Restore it from a backup, or everything must trust a new CA after the next installation", secret, s.Lost)}
	case s.CA == nil && s.BackupFile == "":
		return Finding{VerdictOK, secret + " does not exist: there is nothing to keep"}
	case s.BackupFile == "":
		return Finding{VerdictFailed, fmt.Sprintf("no backup of the CA: without it, everything must trust a new CA after the next installation. %s", save)}
	}
	kept, err := parseBackup(s.Backup)
	switch {
	case err != nil:
		return Finding{VerdictFailed, fmt.Sprintf("%s: is not a backup of %s: %v. %s", s.BackupFile, secret, err, save)}
	case s.CA == nil:
		return Finding{VerdictUnknown, fmt.Sprintf("%s: %s does not exist, so that nothing can be compared with it", s.BackupFile, secret)}
	case kept.Namespace != "" && kept.Namespace != s.System:
		return Finding{VerdictFailed, fmt.Sprintf("%s: is of namespace %q, not %q", s.BackupFile, kept.Namespace, s.System)}
	case !maps.EqualFunc(kept.Data, s.CA.Data, bytes.Equal):
		return Finding{VerdictFailed, fmt.Sprintf("%s: is not %s as it is now: the CA was changed since. %s", s.BackupFile, secret, save)}
	}
	return Finding{VerdictOK, fmt.Sprintf("%s: is %s as it is now. It holds the CA's key", s.BackupFile, secret)}
}

// parseBackup never returns an error with content of the file: that is a key.
func parseBackup(content []byte) (corev1.Secret, error) {
	var secret corev1.Secret
	if yaml.Unmarshal(content, &secret) != nil {
		return secret, errors.New("must be the YAML or JSON of one Secret")
	}
	if secret.Kind != "Secret" || secret.Name != api.CASecretName {
		return secret, fmt.Errorf("is %s %q", cmp.Or(secret.Kind, "something without a kind:"), secret.Name)
	}
	return secret, nil
}

// deletion is in the order in which no pod is refused: first who asks the webhook, and
// then the webhook.
func deletion(s UninstallSituation) []string {
	var commands []string
	if s.Webhook {
		commands = append(commands, "kubectl delete mutatingwebhookconfiguration servingcert")
	}
	part := labelPartOfServingcert
	return append(commands,
		"kubectl -n "+s.System+" delete deployments,services,poddisruptionbudgets,networkpolicies -l "+part,
		"kubectl delete validatingadmissionpolicybindings,validatingadmissionpolicies,clusterrolebindings,clusterroles -l "+part,
		"kubectl delete namespace "+s.System+"     # and the CA with it",
	)
}

const labelPartOfServingcert = "app.kubernetes.io/part-of=servingcert"

func remainders(s UninstallSituation, certificates int, namespaces []string) []Remainder {
	return []Remainder{
		{
			fmt.Sprintf("Secrets of %s. Pods that mount them cannot start without them", Count(certificates, "certificate")),
			"kubectl delete secrets -A -l " + api.LabelManagedBy,
		},
		{
			fmt.Sprintf("ConfigMap %s in %s. Pods that mount it cannot start without it", api.BundleName, Count(len(s.Bundles), "namespace")),
			"kubectl get configmaps -A --field-selector metadata.name=" + api.BundleName +
				` -o jsonpath='{range .items[*]}{.metadata.namespace}{"\n"}{end}' | xargs -I NS kubectl -n NS delete configmap ` + api.BundleName,
		},
		{"the bundle in webhooks, CRDs, APIServices and ConfigMaps of yours that ask for it: it is in their own fields", ""},
		{
			"labels and annotations servingcert.dev/… of yours" + inNamespaces(namespaces) + ", and conditions servingcert.dev/…: text that nobody reads any more",
			"kubectl label namespace --all " + api.LabelInject + "-",
		},
		{"finalizers: none. Nothing waits for servingcert to be deleted", ""},
	}
}

// inNamespaces names a few.
func inNamespaces(namespaces []string) string {
	const most = 5
	if len(namespaces) == 0 {
		return ""
	}
	more := ""
	if n := len(namespaces) - most; n > 0 {
		namespaces, more = namespaces[:most], fmt.Sprintf(" and %d more", n)
	}
	return " (namespaces " + strings.Join(namespaces, ", ") + more + ")"
}
