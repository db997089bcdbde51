package signer

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/test/integration/harness"
)

// What is scraped, and that a series ends with its Secret.
func TestMetrics(t *testing.T) {
	d, ns := newDeployment(t), newNamespace(t)
	r := startProcess(t, d)
	makeService(t, ns, "web")
	makeService(t, ns, "wrong", api.AnnotationDuration, "abc")
	first := r.waitGood(t, ns, "web", "web-tls")
	waitReady(t, ns, "wrong", metav1.ConditionFalse, "InvalidAnnotation")
	annotate(t, ns, "web", map[string]any{api.AnnotationKeyAlgorithm: "ED25519"})
	have := r.waitGood(t, ns, "web", "web-tls", first.fingerprint())

	labels := fmt.Sprintf(`{namespace=%q,secret="web-tls"}`, ns)
	for series, want := range map[string]float64{
		`servingcert_certificates_issued_total{reason="FirstIssue"}`:                                 1,
		`servingcert_certificates_issued_total{reason="KeyAlgorithmChanged"}`:                        1,
		fmt.Sprintf(`servingcert_issue_failures_total{namespace=%q,reason="InvalidAnnotation"}`, ns): 1,
		`servingcert_issue_duration_seconds_count`:                                                   2,
		"servingcert_certificate_not_after_timestamp_seconds" + labels:                               float64(have.leaf.NotAfter.Unix()),
		"servingcert_certificate_renew_at_timestamp_seconds" + labels:                                float64(pki.RenewAt(have.leaf).Unix()),
		`servingcert_ca_not_after_timestamp_seconds{ca="serving",generation="1"}`:                    float64(rootOf(t, r).NotAfter.Unix()),
		`servingcert_ca_problem{ca="serving",reason="CALost"}`:                                       0,
	} {
		harness.Eventually(t, func() error {
			text, ok := r.metric(series)
			if value, err := strconv.ParseFloat(text, 64); !ok || err != nil || value != want {
				return fmt.Errorf("%s is %q, want %v", series, text, want)
			}
			return nil
		})
	}
	_, ok := r.metric("servingcert_certificate_retained" + labels)
	require.False(t, ok)
	annotate(t, ns, "web", map[string]any{api.AnnotationSecretName: nil})
	harness.Eventually(t, func() error {
		if value, _ := r.metric("servingcert_certificate_retained" + labels); value != "1" {
			return fmt.Errorf("retained is %q", value)
		}
		return nil
	})
	require.NoError(t, admin.CoreV1().Secrets(ns).Delete(t.Context(), "web-tls", metav1.DeleteOptions{}))
	harness.Eventually(t, func() error {
		if _, body, err := harness.Get(context.Background(), r.metrics); err != nil || strings.Contains(body, labels) {
			return fmt.Errorf("there are series of the Secret that is gone (%w)", err)
		}
		return nil
	})
}

// What is not ours is not looked at when the signer starts, however much of it there is.
func TestAStartLooksAtWhatIsOurs(t *testing.T) {
	d, ns := newDeployment(t), newNamespace(t)
	_, err := admin.CoreV1().Secrets(ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	makeService(t, ns, "web")
	r := startProcess(t, d)
	r.waitGood(t, ns, "web", "web-tls")
	require.NoError(t, r.stop())

	r = startProcess(t, d, "--log-level=debug-1") // controller-runtime logs each reconciliation
	makeService(t, ns, "later")
	later := r.waitGood(t, ns, "later", "later-tls")
	require.NoError(t, admin.CoreV1().Secrets(ns).Delete(t.Context(), "later-tls", metav1.DeleteOptions{}))
	r.waitGood(t, ns, "later", "later-tls", later.fingerprint()) // events of Secrets and Services from before were delivered
	harness.Eventually(t, func() error {
		if waiting, err := r.sum(`workqueue_depth{controller="signer"`); err != nil || waiting > 0 {
			return fmt.Errorf("%v wait (%w)", waiting, err)
		}
		return nil
	})
	looked := func(secret string) bool {
		return strings.Contains(r.log.String(), fmt.Sprintf("msg=Reconciling controller=signer object.name=%[2]s object.namespace=%[1]s namespace=%[1]s name=%[2]s ", ns, secret))
	}
	assert.True(t, looked("web-tls"))
	assert.False(t, looked("foreign"))
}

// sum adds up the series that begin with the text.
func (r *running) sum(prefix string) (sum float64, err error) {
	_, body, err := harness.Get(context.Background(), r.metrics)
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, prefix) {
			fields := strings.Fields(line)
			value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", line, err)
			}
			sum += value
		}
	}
	return sum, err
}

// What the CA permits was settled when it was made. Flags that say otherwise stop
// nothing that it permits.
func TestFlagsThatPermitOtherNamesThanTheCA(t *testing.T) {
	permit := []string{"--permit-cluster-ips", "--permit-dns-suffix=*=localhost"}
	ask := []string{api.AnnotationClusterIPs, "true", api.AnnotationExtraDNSNames, "localhost"}
	t.Run("less", func(t *testing.T) {
		d, ns := newDeployment(t), newNamespace(t)
		r := startProcess(t, d, permit...)
		svc := makeService(t, ns, "web", ask...)
		have := r.waitGood(t, ns, "web", "web-tls")
		require.NoError(t, r.verify(t.Context(), have, svc.Spec.ClusterIP))
		require.NoError(t, r.verify(t.Context(), have, "localhost"))
		require.NoError(t, r.stop())

		r = startProcess(t, d)
		c := waitReady(t, ns, "web", metav1.ConditionFalse, "InvalidAnnotation")
		assert.Contains(t, c.Message, `; the certificate in Secret "web-tls" is kept, and renewed without changes`)
		makeService(t, ns, "plain")
		r.waitGood(t, ns, "plain", "plain-tls")
		require.Equal(t, have.secret.ResourceVersion, getSecret(t, ns, "web-tls").ResourceVersion)
	})
	t.Run("more", func(t *testing.T) {
		d, ns := newDeployment(t), newNamespace(t)
		r := startProcess(t, d)
		makeService(t, ns, "web")
		have := r.waitGood(t, ns, "web", "web-tls")
		require.NoError(t, r.stop())

		r = startProcess(t, d, permit...)
		makeService(t, ns, "more", ask...)
		c := waitReady(t, ns, "more", metav1.ConditionFalse, "WaitingForTrust")
		assert.Contains(t, c.Message, "waiting: localhost, ")
		fresh, err := whatIsServed(t.Context(), ns, "more-tls")
		require.NoError(t, err)
		require.NoError(t, r.verify(t.Context(), fresh, "more."+ns+".svc"), "what could be had before can be had now")
		assert.ElementsMatch(t, []string{"more." + ns + ".svc", "more." + ns + ".svc.cluster.local"}, fresh.leaf.DNSNames)
		annotate(t, ns, "web", map[string]any{api.AnnotationExtraDNSNames: "localhost"})
		waitReady(t, ns, "web", metav1.ConditionFalse, "WaitingForTrust")
		require.Equal(t, have.secret.ResourceVersion, getSecret(t, ns, "web-tls").ResourceVersion, "nothing to change yet")
	})
}

func TestWrongFlags(t *testing.T) {
	for flag, says := range map[string]string{
		"--min-duration=1m":                         `--min-duration: "1m0s": must be at least 15m`,
		"--default-duration=99999h":                 `--default-duration: "99999h0m0s": must be between --min-duration`,
		"--max-duration=abc":                        `invalid argument "abc" for "--max-duration"`,
		"--ca-duration=1h":                          `--ca-duration: "1h0m0s": must be at least three times --max-duration plus --ca-soak`,
		"--ca-refusal-grace=0s":                     `--ca-refusal-grace: "0s": must be positive`,
		"--ca-refusal-grace=-1h":                    `--ca-refusal-grace: "-1h0m0s": must be positive`,
		"--permit-dns-suffix=*=svc":                 `--permit-dns-suffix: "*=svc": suffix "svc" overlaps "svc"`,
		"--permit-dns-suffix=*=local":               `"local" overlaps "cluster.local"`,
		"--permit-dns-suffix=*=x.svc.cluster.local": `"x.svc.cluster.local" overlaps`,
		"--permit-dns-suffix=example.com":           "must be NAMESPACE-GLOB=SUFFIX",
		"--approve-kubelet-serving":                 "--approve-kubelet-serving: requires --node-cidrs (such as 10.0.0.0/16), --node-dns-suffixes (such as nodes.example.com), or both",
		"--instance=a b":                            `--instance: "a b": must be a label value`,
		"--workers=0":                               `--workers: "0": must be at least 1`,
		"--namespace=A":                             `--namespace: "A": not a valid namespace name`,
		"--no-such-flag":                            "unknown flag: --no-such-flag",
		"positional":                                `unexpected argument "positional"`,
	} {
		cmd := exec.CommandContext(t.Context(), binary, flag)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "%s: %s", flag, out)
		assert.Equal(t, 2, exit.ExitCode(), "%s: %s", flag, out)
		assert.Contains(t, string(out), says)
		assert.Equal(t, 1, strings.Count(string(out), "\n"), "one line: %s", out)
	}
}
