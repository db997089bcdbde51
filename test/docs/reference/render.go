package reference

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// section is a table of constants of the page.
type section struct {
	title, about string
	of           []string // names in Reference.Values
}

// conditions, labels and others are the sections of constants on the page.
var (
	conditions = []section{
		{"Reasons of condition Ready", "Also of events on the Service, and label `reason` of `servingcert_certificates_issued_total` and `servingcert_issue_failures_total`. [What they mean](architecture.md#what-a-person-sees).", []string{"signer.Reason", "signer/issue.Reason"}},
		{"Reasons of condition Serving", "[What to do about each](how-rotation-reaches-pods.md#is-it-served).", []string{"serving"}},
		{"Reasons of condition Guarded", "[What to do about each](identities.md#is-it-guarded).", []string{"guarded"}},
		{"Reasons of condition PodsHealthy", "Also of events on the Service and the workload. [What to do](operations.md#pods-that-fail-after-an-injection).", []string{"healthy"}},
		{"Answers to PodCertificateRequests", "Reasons of their conditions, of events on the pod, and of `servingcert_pod_certificate_failures_total`, beside those of condition Ready. [What to do](pod-keys.md).", []string{"podcert"}},
		{"Answers to CertificateSigningRequests", "Reasons of their conditions, of events, and of `servingcert_csr_failures_total`, beside those of condition Ready. [What to do](pod-keys.md#the-workload-makes-the-key-itself).", []string{"csr"}},
		{"Problems and warnings of the CA", "In ConfigMap `servingcert-ca-status` and `kubectl servingcert status`; reasons of condition Ready, and of `servingcert_ca_problem` and `servingcert_ca_warning`. [What to do](runbooks.md#the-signer-and-the-ca).", []string{"ca"}},
		{"Phases of the CA", "[How the CA is replaced](architecture.md#how-the-ca-is-replaced).", []string{"phases"}},
		{"Reasons of targets of the CA bundle", "In ConfigMap `servingcert-trust-status`, events `TrustBundleRefused`, and the metrics `servingcert_trust_…`. [What to do](trust.md#what-refusing-looks-like).", []string{"trust.Reason"}},
		{"What holds a restart", "In events `RestartHeld`, `kubectl servingcert status` and `servingcert_restarts_held`. [When](adr/0018-what-is-restarted-and-when.md).", []string{"rotator/restart.Hold"}},
		{"Reasons of stores on hosts", "In the readiness of hostsync, and label `reason` of `servingcert_host_store_ready`. [What they mean](hosts.md#is-it-well).", []string{"hostfiles.Reason"}},
		{"Reasons of reviews", "Label `reason` of `servingcert_webhook_reviews_total` and `servingcert_webhook_notes_total`, and the audit annotation. [What they mean](injection.md).", []string{"mutate/reasons.Reason", "mutate/admission.Reason"}},
	}
	labels = []section{
		{"States of pods", "Label `state` of `servingcert_consumers`.", []string{"rotator/serving.State"}},
		{"States of guarded pods", "Label `state` of `servingcert_guarded_pods`.", []string{"rotator/serving.GuardState"}},
		{"Results of reviews", "Label `result` of `servingcert_webhook_reviews_total`, and `outcome` of how long they take.", []string{"mutate/admission.result", "mutate/admission.outcome"}},
		{"States of targets, and why they are written", "Labels `state` and `why` of `servingcert_trust_…`.", []string{"trust.State", "trust.KindState", "trust.Why"}},
		{"Results of dials", "Reasons why a port is unreachable, or its pod was not dialled.", []string{"rotator/probe.Kind", "rotator/probe.Cause"}},
		{"Kinds of connections", "Field `kind` of plaintext clients in a proxy's response to `/clients`, which does not contain `tls`, `ssl` and `gss`.", []string{"proxy.Kind"}},
		{"Clients that a port refuses", "Label `reason` of `servingcert_proxy_connections_failed_total` and of `servingcert_proxy_clients_watched_total`. [What is guarded](identities.md).", []string{"proxy.Reason"}},
	}
	keys = []section{
		{"Keys", "[What each means](reference.md).", []string{"annotations"}},
		{"Values", "Allowed values of annotations and flags.", []string{"api.Mode", "api.UnknownPrograms", "api.HTTPSProbes", "api.OnRotate", "api.Issuer", "api.KeySource", "api.Trust", "api.TrustSource", "api.RotateMode", "pki.KeyAlgorithm"}},
		{"States of a renewal", "Field `services[].state` in the output of `kubectl servingcert renew -o json`. [All fields](cli.md#output-for-programs).", []string{"cmd/kubectl-servingcert/internal/status.RenewalState"}},
		{"States of a process", "Field `processes[].state` in the output of `kubectl servingcert status -o json`. [All fields](cli.md#output-for-programs).", []string{"doctor.ProcessState"}},
		{"Protocols before TLS", "Values of annotation `servingcert.dev/probe` and of `verify --starttls`.", []string{"starttls.Protocol"}},
	}
	// unseen are constants whose values are internal.
	unseen = []string{"ca.Origin", "ca.StepKind", "ca.InterimStep", "api.Place", "api.mark", "api.ConnectProtocol", "proxy.Mode", "cmd/kubectl-servingcert.style", "cmd/kubectl-servingcert/internal/status.MigrationStep",
		"cmd/kubectl-servingcert/internal/status.SecretState", "doctor.Group", "doctor.ID", "doctor.Level", "hostfiles.Kind", "hostfiles.Seen", "hostfiles.Step", "mutate/choose.By", "mutate/choose.DifferenceKind", "mutate.part", "plan.Moves", "plan.Speaks", "plan.Today", "plan.Via", "plan.Way", "mutate/programs.Reload", "api.KeyAlgorithm", "signer.Trust", "trust.PolicyAct", "trust.PolicyCause", "trust.Report",
		"rotator/uninjected.Reason", "rotator/pods.Reason", "rotator/probe.Judgement", "rotator/probe.Stranger", "ready", "conditions", "events"}
)

const intro = `# Generated reference

**What is the exact name of a metric, event, message, flag or key?** This page is generated from the code: do not edit it.
[reference.md](reference.md) explains flags and keys, [architecture.md](architecture.md#what-a-person-sees) and
[runbooks.md](runbooks.md) explain what is reported, and what to do.

To generate it: ` + "`go test ./test/docs/reference -update`" + `.

`

// Markdown returns the page. It returns an error if constants are in no section.
func (r *Reference) Markdown() (string, error) {
	var b strings.Builder
	b.WriteString(intro)
	b.WriteString("## Metrics\n\nMetrics of controller-runtime and client-go are not listed; of these, `leader_election_master_status` is 1 for the leader.\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, m := range r.Metrics {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, code(m.Labels), cell(m.Help))
	}
	b.WriteString("\n## Events\n\nIn addition, the reason of a condition that becomes False is an event on the Service.\n\n")
	r.table(&b, r.Values["events"])
	b.WriteString("\n## Conditions and reasons\n\n" + code(values(r.Values["conditions"])) + ", on Services.\n")
	left := maps.Clone(r.Values)
	for _, name := range unseen {
		delete(left, name)
	}
	r.sections(&b, conditions, left)
	b.WriteString("\n## Values of labels\n")
	r.sections(&b, labels, left)
	b.WriteString("\n## Log messages\n\nMessages at levels info, warn and error; those at level debug are not listed. Fields contain the variable parts.\n\n| level | message | package |\n|---|---|---|\n")
	for _, l := range r.Logs {
		fmt.Fprintf(&b, "| %s | %s | `%s` |\n", l.Level, cell(l.Message), l.Package)
	}
	b.WriteString("\n## Labels and annotations\n")
	r.sections(&b, keys, left)
	b.WriteString("\n## Flags\n\nAs `--help` says; defaults are in [reference.md](reference.md#flags-of-the-three-processes).\n\n| program | flag | meaning |\n|---|---|---|\n")
	for _, f := range r.Flags {
		program := f.Program
		if program == "internal" {
			program = "all three processes"
		}
		fmt.Fprintf(&b, "| %s | `--%s` | %s |\n", program, f.Name, cell(f.Usage))
	}
	if len(left) > 0 {
		return "", fmt.Errorf("add these constants to a section in render.go: %v", slices.Sorted(maps.Keys(left)))
	}
	return b.String(), nil
}

// sections writes sections, and removes their constants from left.
func (r *Reference) sections(b *strings.Builder, all []section, left map[string][]Value) {
	for _, s := range all {
		fmt.Fprintf(b, "\n### %s\n\n%s\n\n", s.title, s.about)
		var rows []Value
		for _, name := range s.of {
			rows = append(rows, r.Values[name]...)
			delete(left, name)
		}
		if s.of[0] == "ca" || s.of[0] == "serving" { // names of ConfigMaps and their keys have the same prefix
			rows = slices.DeleteFunc(rows, func(v Value) bool { return v.Value == "" || !unicode.IsUpper(rune(v.Value[0])) })
		}
		r.table(b, rows)
	}
}

func (r *Reference) table(b *strings.Builder, rows []Value) {
	b.WriteString("| value | meaning |\n|---|---|\n")
	for _, v := range rows {
		if v.Value != "" {
			fmt.Fprintf(b, "| `%s` | %s |\n", v.Value, cell(v.Comment))
		}
	}
}

func values(of []Value) []string {
	var all []string
	for _, v := range of {
		all = append(all, v.Value)
	}
	return all
}

func code(names []string) string {
	var all []string
	for _, n := range names {
		all = append(all, "`"+n+"`")
	}
	return strings.Join(all, ", ")
}

// cell returns text for a table, without links and HTML.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "[", `\[`).Replace(text)
}
