package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// limits are values at the limits of programs, each with its flag and a value beyond the limit.
var limits = []struct{ path, flag, allowed, refused string }{
	{"clusterDomain", "signer --cluster-domain", "example.internal", "Example.internal"},
	{"clusterDomain", "webhook --cluster-domain", "a.b-c.d", "a..b"},
	{"clusterId", "signer --cluster-id", "eu-1.A_b", "eu 1"},
	{"clusterId", "signer --cluster-id", strings.Repeat("a", 64), strings.Repeat("a", 65)},
	{"signer.instance", "signer --instance", "blue", "-blue"},
	{"certificates.minDuration", "signer --min-duration", "15m", "14m59s"},
	{"certificates.minDuration", "signer --min-duration", "720h", "720h1s"}, // more than the default duration
	{"certificates.maxDuration", "signer --max-duration", "8759h53m", "8759h53m1s"},
	{"certificates.maxDuration", "signer --max-duration", "720h", "719h"},
	{"certificates.defaultDuration", "signer --default-duration", "1h", "59m"},
	{"certificates.defaultDuration", "signer --default-duration", "2160h", "2161h"},
	{"certificates.clusterIPDuration", "signer --cluster-ip-duration", "15m", "14m"},
	{"certificates.podMaxDuration", "signer --pod-max-duration", "1h", "59m"},
	{"certificates.podMaxDuration", "signer --pod-max-duration", "2160h", "2160h1s"},
	{"ca.duration", "signer --ca-duration", "6480h21m", "6480h"},
	{"ca.soak", "signer --ca-soak", "6600h", "6600h1s"},
	{"ca.refusalGrace", "signer --ca-refusal-grace", "1s", "0s"},
	{"limits.secretIssueInterval", "signer --secret-issue-interval", "1h", "61m"},
	{"limits.namespaceReissueInterval", "signer --namespace-reissue-interval", "1h", "1h0m1s"},
	{"consumers.probeConcurrency", "rotator --probe-concurrency", "512", "513"},
	{"consumers.probeTimeout", "rotator --probe-timeout", "10ms", "9ms"},
	{"consumers.probeTimeout", "rotator --probe-timeout", "1m", "1m1s"},
	{"consumers.verifyInterval", "rotator --verify-interval", "1s", "999ms"},
	{"consumers.propagationTime", "rotator --propagation-time", "1s", "500ms"},
	{"trust.maxBackoff", "rotator --max-backoff", "100ms", "99ms"},
	{"proxy.image.pullSecrets[0].name", "webhook --proxy-pull-secrets", "registry", "Registry"},
	{"proxy.resources.requests.cpu", "webhook --proxy-resources=requests.cpu", "8", "9"},
	{"proxy.resources.requests.cpu", "webhook --proxy-resources=requests.cpu", "1m", "8001m"},
	{"proxy.resources.requests.memory", "webhook --proxy-resources=requests.memory", "4096Mi", "4097Mi"},
	{"proxy.resources.requests.memory", "webhook --proxy-resources=requests.memory", "1Mi", "0Mi"},
	{"proxy.resources.limits.cpu", "webhook --proxy-resources=limits.cpu", "50m", "49m"},
	{"proxy.resources.limits.cpu", "webhook --proxy-resources=limits.cpu", "8000m", "9"},
	{"proxy.resources.limits.memory", "webhook --proxy-resources=limits.memory", "32Mi", "31Mi"},
	{"proxy.resources.limits.memory", "webhook --proxy-resources=limits.memory", "4Gi", "5Gi"},
}

// The chart rejects exactly the values that the programs reject.
func TestTheChartRejectsWhatTheProgramsReject(t *testing.T) {
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", bin, "./cmd/signer", "./cmd/rotator", "./cmd/webhook")
	build.Dir = repository
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	// runs returns the exit code: 2 if a flag is rejected, 1 otherwise, as there is no cluster.
	runs := func(program string, args ...string) (code int, text string) {
		args = append(args, "--kubeconfig="+filepath.Join(bin, "none"), "--metrics-addr=0", "--health-addr=0")
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, program), args...)
		out, _ := cmd.CombinedOutput() // the exit code is checked
		return cmd.ProcessState.ExitCode(), string(out)
	}
	for _, l := range limits {
		t.Run(l.path+"="+l.refused, func(t *testing.T) {
			program, flag, _ := strings.Cut(l.flag, " ")
			_, err := loaded(t).render(defaultNamespace, values(t, l.path+"="+l.refused))
			require.Error(t, err)
			code, text := runs(program, flag+"="+l.refused)
			assert.Equal(t, 2, code, text)

			given := 0
			for _, o := range objects(t, defaultNamespace, values(t, l.path+"="+l.allowed)) {
				if o.GetKind() != "Deployment" {
					continue
				}
				var d appsv1.Deployment
				require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d))
				c := d.Spec.Template.Spec.Containers[0]
				if !strings.Contains(c.Image, "/"+program+":") || !slices.Contains(c.Args, flag+"="+l.allowed) {
					continue
				}
				given++
				code, text := runs(program, c.Args...)
				assert.Equal(t, 1, code, text)
			}
			assert.Positive(t, given, "no Deployment has the flag")
		})
	}
}

// servingcert itself needs two kinds of target: without them, pods are refused or do not start.
func TestTargetsThatServingcertNeeds(t *testing.T) {
	for targets, missing := range map[string]string{
		"ConfigMap":                    "NamespaceConfigMap",
		"NamespaceConfigMap":           "MutatingWebhookConfiguration",
		"MutatingWebhookConfiguration": "NamespaceConfigMap",
	} {
		_, err := loaded(t).render(defaultNamespace, values(t, "trust.targets={"+targets+"}"))
		assert.ErrorContains(t, err, "trust.targets: must include "+missing+", which servingcert itself needs", targets)
	}
}

func TestNoNamespaceOfKubernetes(t *testing.T) {
	_, err := loaded(t).render("kube-system", nil)
	assert.ErrorContains(t, err, `namespace "kube-system": servingcert needs a namespace of its own`)
}
