package mutate

import (
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
)

// Known is what is known about a namespace when a pod is created in it.
type Known struct {
	// Services of the namespace, in any order. Those that ask for no Secret may be
	// missing.
	Services []*corev1.Service
	// ConventionalSecret is true if the namespace has a conventional Secret; see
	// api.IsConventional.
	ConventionalSecret bool
	// Namespace holds the namespace's annotations with the prefix api.Domain.
	Namespace map[string]string
	// DefaultMode holds where nobody says a mode; empty for api.ModeArgs.
	DefaultMode api.Mode
	// UnknownPrograms holds for programs that are not known; empty for
	// api.UnknownProgramsFiles.
	UnknownPrograms api.UnknownPrograms
	// Programs are the programs that are known; nil for those that are built in.
	Programs *programs.Table
	// NoPodKeys is true if the cluster does not serve PodCertificateRequests, so that no
	// kubelet makes a key.
	NoPodKeys bool
	// TrustBundle is true if pods get the CA bundle from ClusterTrustBundle
	// api.TrustBundleName, and not from the ConfigMap of their namespace.
	TrustBundle bool
}

// By says what decided which Secret the pod gets.
type By string

// What can decide, in order of precedence.
const (
	ByPod        By = "pod"        // the pod names it
	ByService    By = "service"    // an annotated Service selects the pod
	ByConvention By = "convention" // it has the conventional name
	ByNothing    By = ""           // the pod gets none
)

// Choice is the Secret of a pod, and what follows from what decided it.
type Choice struct {
	By     By
	Secret string // empty for ByNothing, and with PodKey
	// PodKey is what is known of the key if the kubelet makes it, or nil.
	PodKey *PodKey
	// NoPodKeys is true if PodKey is set and the cluster has no such kubelets.
	NoPodKeys bool
	// Service is the name of the annotated Service that asks for the Secret and
	// selects the pod, or of the preferred of several; empty if none does.
	Service string
	// Issued is true if an annotated Service of the namespace asks for the Secret, so
	// the signer writes it and the CA bundle verifies it.
	Issued bool
	// NotServing is true if annotated Services select the pod, but it gets no Secret,
	// because their traffic cannot reach it.
	NotServing bool
	// Ports are the targetPorts that serve TLS for the Services that select the pod, as
	// far as the Services show it.
	Ports []intstr.IntOrString
	// Notes are about the Services, such as one that the signer refuses.
	Notes []Note

	// service and namespace are the settings that the Service and the namespace say,
	// and defaultMode is the mode where nobody says one.
	service, namespace api.Settings
	defaultMode        api.Mode
	// guess is true if containers of programs that are not known get flags although nobody
	// asks for them.
	guess bool
	// programs are those that are known.
	programs *programs.Table
	// attempts are what the rotator found out about what pods of the Service were given,
	// and what programs said of themselves anywhere in the namespace.
	attempts api.FlagsFacts
	// combined is true if the Secret has api.CombinedKey.
	combined bool
	// trustBundle is Known.TrustBundle.
	trustBundle bool
}

// origin is where the pair comes from.
func (c Choice) origin() origin { return origin{c.Secret, c.PodKey != nil} }

// FromServices reports whether the choice rests on a known Service. A Service that was
// created since is younger and could not change it, unless both were created in the same
// second and it is preferred: then the rotator finds that the pod was missed.
func (c Choice) FromServices() bool {
	return c.By == ByService || c.By == ByPod && c.Issued
}

// Choose returns the Secret of the pod: the one that it names; or else the one that the
// annotated Service asks for that selects it and whose traffic can reach it, of several
// the preferred (see preferences), or a key of its own if that Service asks for those; or
// else, if no annotated Service selects it, the conventional Secret, if it exists, the pod
// declares a port, it is not there to run to its end ([api.OneShot]), and no Service asks
// for that Secret, which would be for the pods of that Service only.
func Choose(pod *corev1.Pod, request api.PodRequest, known Known) Choice {
	asking := askingServices(known.Services)
	selecting := selectingServices(asking, pod)
	serving := servedBy(pod, selecting)
	c := Choice{
		defaultMode: known.DefaultMode, guess: known.UnknownPrograms == api.UnknownProgramsFlags,
		programs: known.Programs, trustBundle: known.TrustBundle,
	}
	switch {
	case request.SecretName != "":
		c.By, c.Secret = ByPod, request.SecretName
	case len(serving) > 0:
		c.By, c.Secret = ByService, serving[0].from.secret
		if serving[0].from.podKeys {
			c.PodKey, c.NoPodKeys = podKeyOf(serving[0].Service), known.NoPodKeys
		}
		selecting = serving
	case len(selecting) > 0:
		c.NotServing = true
	case known.ConventionalSecret && !issued(asking, api.ConventionalSecretName) && api.DeclaresPort(pod) && !api.OneShot(pod):
		c.By, c.Secret = ByConvention, api.ConventionalSecretName
	}
	c.Notes = serviceNotes(pod, known.Services, selecting, c)
	c.namespace = c.settingsOf("namespace", known.Namespace)
	if c.By == ByNothing {
		return c
	}
	c.Issued = c.PodKey != nil || issued(asking, c.Secret)
	c.combined = c.PodKey != nil || slices.ContainsFunc(asking, func(s asker) bool { return s.from == c.origin() && api.WantsCombined(s.Service) })
	c.addServices(asking, selecting)
	return c
}

// addServices adds what the Services that ask for a certificate, and those of them that select the
// pod, say of its containers.
func (c *Choice) addServices(asking, selecting []asker) {
	targets := api.PortSet{}
	for _, s := range asking {
		c.attempts = append(c.attempts, api.FlagsOf(s.Service).Established()...)
	}
	for _, s := range selecting {
		if s.from != c.origin() {
			continue
		}
		if c.Service == "" {
			c.Service = s.Name
			c.service = c.settingsOf("Service "+s.Name, s.Annotations)
		}
		c.attempts = append(c.attempts, api.FlagsOf(s.Service)...)
		for _, target := range api.TLSTargets(s.Service) {
			if !targets[target] {
				targets[target] = true
				c.Ports = append(c.Ports, target)
			}
		}
	}
}

// settingsOf returns the settings that the annotations of a Service or of the namespace say,
// and adds a note for each that is wrong.
func (c *Choice) settingsOf(whose string, annotations map[string]string) api.Settings {
	settings, errs := api.ParseSettings(annotations)
	for _, err := range errs {
		c.Notes = append(c.Notes, Note{Reason: reasonBadSetting, Detail: whose + ": " + err.Error()})
	}
	return settings
}

// asker is a Service and what it asks for.
type asker struct {
	*corev1.Service
	from origin
}

// askingServices returns the Services that ask for a Secret with a valid name.
func askingServices(services []*corev1.Service) []asker {
	asking := make([]asker, 0, len(services))
	for _, s := range services {
		from := originOf(s)
		if from == (origin{}) {
			continue
		}
		if from.secret == api.ConventionalSecretName && len(s.Spec.Selector) == 0 && api.CheckSize(s) == nil {
			continue // refused by api.Parse: every pod in the namespace would get it
		}
		asking = append(asking, asker{s, from})
	}
	return asking
}

// selectingServices returns those of the Services that select the pod, the preferred first.
// Of a namespace with many Services, few select one pod, and only those are compared.
func selectingServices(asking []asker, pod *corev1.Pod) []asker {
	var selecting []asker
	for _, s := range asking {
		if api.Selects(s.Service, pod) {
			selecting = append(selecting, s)
		}
	}
	slices.SortStableFunc(selecting, func(a, b asker) int { return preferred(a.Service, b.Service) })
	return selecting
}

func issued(asking []asker, secret string) bool {
	return slices.ContainsFunc(asking, func(s asker) bool { return s.from.secret == secret })
}

// servedBy returns those of the Services that select the pod whose traffic can reach it.
func servedBy(pod *corev1.Pod, selecting []asker) []asker {
	if len(selecting) == 0 {
		return nil
	}
	reach := api.ReachOf(pod)
	return slices.DeleteFunc(slices.Clone(selecting), func(s asker) bool { return !reach.Serves(s.Service) })
}

// serviceNotes returns what the owner of the pod should know about the Services that
// select it.
func serviceNotes(pod *corev1.Pod, all []*corev1.Service, selecting []asker, c Choice) []Note {
	var notes []Note
	if c.NotServing {
		notes = append(notes, Note{Reason: ReasonNotServing, Detail: unreached(pod, selecting[0].Service)})
	}
	if c.By == ByService && c.PodKey == nil { // a key of the pod's own has a certificate with all names
		for _, s := range selecting {
			if s.from != c.origin() {
				notes = append(notes, Note{Reason: reasonSeveralServices, Detail: whyPreferred(selecting[0].Service, s.Service)})
				break
			}
		}
	}
	examined, tooLarge := 0, 0
	for _, s := range all {
		if err := api.CheckSize(s); err != nil && api.Asks(s) && c.By != ByPod {
			if tooLarge++; tooLarge == 1 { // which may have selected the pod
				notes = append(notes, Note{Reason: reasonServiceTooLarge, Detail: "Service " + s.Name + ": " + err.Error()})
			}
			continue
		}
		if !api.Asks(s) || !api.Selects(s, pod) {
			continue
		}
		from := originOf(s)
		impossible := from == (origin{})
		if !impossible && from != c.origin() {
			continue
		}
		if examined++; examined > maxExamined {
			break
		}
		detail := refusal(s)
		switch {
		case impossible:
			notes = append(notes, Note{Reason: reasonImpossibleSecret, Detail: "Service " + s.Name + ": " + detail})
		case detail != "":
			notes = append(notes, Note{Reason: reasonServiceRefused, Detail: "Service " + s.Name + ": " + detail})
		}
	}
	return notes
}

// maxExamined bounds for how many of the Services that select one pod the webhook finds out
// whether the signer refuses them. It only makes notes of that.
const maxExamined = 32

// unreached says which target ports of the Service the pod lacks.
func unreached(pod *corev1.Pod, svc *corev1.Service) string {
	targets := api.TLSTargets(svc)
	if len(targets) == 0 {
		return "Service " + svc.Name + " has no TCP port"
	}
	ports := make([]string, len(targets))
	for i, t := range targets {
		ports[i] = t.String()
	}
	detail := "Service " + svc.Name + ": targetPort " + list(ports)
	if api.OneShot(pod) {
		return detail + ", pod of a Job or Helm hook"
	}
	return detail
}

// refusal returns why the signer issues no certificate for the Service, as far as the
// webhook can know, or "". Either the Service asks for what no signer allows, or its
// Ready condition is False. If that condition names a leaf, there is a certificate,
// which only lacks some names so far.
func refusal(svc *corev1.Service) string {
	if _, err := api.Parse(svc, widestLimits(svc)); err != nil {
		return err.Error()
	}
	_, hasLeaf := api.LeafOf(svc)
	if cond := api.Condition(svc, api.ConditionReady); cond != nil && cond.Status == metav1.ConditionFalse && !hasLeaf {
		return cond.Reason + ": " + cond.Message
	}
	return ""
}

// widestLimits returns limits that allow the Service everything that any signer might:
// its extra names, any duration, cluster IPs, any key algorithm. What they refuse, every signer refuses.
func widestLimits(svc *corev1.Service) api.Limits {
	limits := api.DefaultLimits()
	limits.MinDuration, limits.MaxDuration, limits.PermitClusterIPs = time.Second, math.MaxInt64, true
	limits.PermitRSA4096 = true
	extra, err := api.ExtraNames(svc)
	if err != nil {
		return limits // every signer refuses the annotation
	}
	for _, name := range extra {
		suffix := strings.TrimPrefix(name, "*.")
		limits.PermitDNSSuffixes = append(limits.PermitDNSSuffixes, api.SuffixRule{NamespaceGlob: "*", Suffix: suffix})
	}
	return limits
}
