package mutate

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Reason names why something was done or not. It is a label of metrics and part
// of audit annotations: a fixed, small set.
type Reason string

// What a review can come to.
const (
	ReasonInjected Reason = "Injected"

	ReasonMirrorPod    Reason = "MirrorPod"
	ReasonOptedOut     Reason = "OptedOut"
	ReasonNotConcerned Reason = "NotConcerned"
	ReasonWindows      Reason = "Windows"

	ReasonSeveralServices    Reason = "SeveralServices"
	ReasonImpossibleSecret   Reason = "ImpossibleSecret"
	ReasonServiceRefused     Reason = "ServiceRefused"
	ReasonUnknownAnnotation  Reason = "UnknownAnnotation"
	ReasonUnknownContainer   Reason = "UnknownContainer"
	ReasonAmbiguousContainer Reason = "AmbiguousContainer"

	ReasonMountPathTaken    Reason = "MountPathTaken"
	ReasonMountPathReadOnly Reason = "MountPathReadOnly"
	ReasonMountPathCovers   Reason = "MountPathCovers"

	ReasonEnvAlreadySet Reason = "EnvAlreadySet"
	ReasonEnvFrom       Reason = "EnvFrom"

	ReasonNoArgs         Reason = "NoArgs"
	ReasonInsistedArgs   Reason = "InsistedArgs"
	ReasonShellWrapper   Reason = "ShellWrapper"
	ReasonFlagAlreadySet Reason = "FlagAlreadySet"

	ReasonHTTPProbe Reason = "HTTPProbe"
	ReasonTCPProbe  Reason = "TCPProbe"
	ReasonGRPCProbe Reason = "GRPCProbe"

	ReasonStatusTooLarge Reason = "StatusTooLarge"
)

// Rule explains a Reason to people.
type Rule struct {
	Reason Reason
	When   string // what was found
	Then   string // what is done or not
	Do     string // what its owner can do about it; empty: nothing needs doing
	Silent bool   // no warning: the pod's owner wanted it, or is not concerned
}

// rules is the whole rule set, in the order in which a pod meets it. The checks
// that go with the rules are below.
var rules = []Rule{
	{Reason: ReasonMirrorPod, When: "the pod mirrors a static pod", Then: "the pod is left alone", Silent: true},
	{Reason: ReasonOptedOut, When: "the pod has the label " + api.LabelInject + "=" + api.InjectDisabled, Then: "the pod is left alone", Silent: true},
	{Reason: ReasonNotConcerned, When: "the pod names no Secret, no annotated Service selects it, and no conventional Secret applies", Then: "the pod is left alone", Silent: true},
	{Reason: ReasonWindows, When: "the pod is for Windows nodes", Then: "nothing is injected", Do: "mount the Secret yourself, or set the label " + api.LabelInject + "=" + api.InjectDisabled},

	{Reason: ReasonSeveralServices, When: "several annotated Services select the pod", Then: "the oldest decides", Do: "name the Secret in the pod's annotation " + api.AnnotationSecretName},
	{Reason: ReasonImpossibleSecret, When: "a Service that selects the pod names a Secret that cannot exist", Then: "it counts as one that names none", Do: "correct the Service"},
	{Reason: ReasonServiceRefused, When: "the Service gets no new certificate", Then: "the pod is injected and starts only if its Secret exists", Do: "correct the Service"},
	{Reason: ReasonUnknownAnnotation, When: "an annotation means nothing on a pod", Then: "it is ignored", Do: "correct its name, or put it on the Service if it belongs there"},
	{Reason: ReasonUnknownContainer, When: "the pod has no such container", Then: "nothing is injected for that name", Do: "correct " + api.AnnotationContainers},
	{Reason: ReasonAmbiguousContainer, When: "no rule tells which container serves", Then: "files and environment go to all, flags to none", Do: "name it in " + api.AnnotationContainers + ", or declare the Service's targetPort in its ports"},

	{Reason: ReasonMountPathTaken, When: "another volume is mounted at the path", Then: "nothing is injected into the container", Do: "set " + api.AnnotationMountPath + " to a free directory"},
	{Reason: ReasonMountPathReadOnly, When: "the path lies in a read-only mount, where no directory can be made", Then: "nothing is injected into the container", Do: "set " + api.AnnotationMountPath + " to a directory outside it"},
	{Reason: ReasonMountPathCovers, When: "the path would cover another mount", Then: "nothing is injected into the container", Do: "set " + api.AnnotationMountPath + " to a directory of its own"},

	{Reason: ReasonEnvAlreadySet, When: "the container sets the variable itself", Then: "its own value stays", Do: "remove the variable, or see that it names the injected files"},
	{Reason: ReasonEnvFrom, When: "the container has an envFrom", Then: "an injected variable wins over one of the same name in it", Do: "set the variable in env if the other is meant, or " + api.AnnotationMode + ": " + string(api.ModeMount)},

	{Reason: ReasonNoArgs, When: "the container has neither command nor args, and args would replace those of its image", Then: "no flags are injected", Do: "write out its args, use the environment, or insist with " + api.AnnotationMode + ": " + string(api.ModeArgs)},
	{Reason: ReasonInsistedArgs, When: "the pod insists on flags for a container with neither command nor args", Then: "the flags replace the arguments of its image", Do: "write out its args if its image needs others"},
	{Reason: ReasonShellWrapper, When: "the container runs a shell, which ignores appended arguments", Then: "no flags are injected", Do: "use $" + api.EnvCertFile + " and $" + api.EnvKeyFile + " in the script"},
	{Reason: ReasonFlagAlreadySet, When: "the command line has one of the flags already", Then: "no flags are injected", Do: "remove it, or see that both name the injected files"},

	{Reason: ReasonHTTPProbe, When: "an HTTP probe or hook uses the TLS port", Then: "it stays HTTP and fails once the port serves TLS", Do: "set " + api.AnnotationHTTPSProbes + `: "true"`},
	{Reason: ReasonTCPProbe, When: "a TCP probe or hook uses the TLS port", Then: "it stays, and the server logs a failed handshake for each", Do: "use httpGet with scheme HTTPS"},
	{Reason: ReasonGRPCProbe, When: "a gRPC probe uses the TLS port, and the kubelet's speaks no TLS", Then: "it stays and fails once the port serves TLS", Do: "probe another port"},

	{Reason: ReasonStatusTooLarge, When: "the pod's annotations leave no room for the status", Then: "it is injected without " + api.AnnotationStatus, Do: "shorten its annotations"},
}

// Rules returns the rule set, in the order in which a pod meets it.
func Rules() []Rule { return slices.Clone(rules) }

func ruleOf(r Reason) Rule {
	i := slices.IndexFunc(rules, func(rule Rule) bool { return rule.Reason == r })
	if i < 0 {
		return Rule{Reason: r}
	}
	return rules[i]
}

// podChecks keep everything off the pod. The first that applies decides.
var podChecks = []struct {
	reason  Reason
	applies func(in *input) bool
}{
	{ReasonMirrorPod, func(in *input) bool { _, ok := in.pod.Annotations[corev1.MirrorPodAnnotationKey]; return ok }},
	{ReasonOptedOut, func(in *input) bool { return in.request.OptedOut }},
	{ReasonNotConcerned, func(in *input) bool { return in.choice.By == ByNothing && !in.request.Trust }},
	{ReasonWindows, func(in *input) bool {
		return in.pod.Spec.OS != nil && in.pod.Spec.OS.Name == corev1.Windows ||
			in.pod.Spec.NodeSelector[corev1.LabelOSStable] == string(corev1.Windows)
	}},
}

// LeftAlone reports whether the pod is left alone whatever its namespace holds.
func LeftAlone(pod *corev1.Pod, request api.PodRequest) bool {
	in := &input{pod: pod, request: request, choice: Choice{By: ByPod}}
	for _, check := range podChecks {
		if check.applies(in) {
			return ruleOf(check.reason).Silent
		}
	}
	return false
}

// containerCheck keeps something out of one container. It returns false, or
// true and what exactly was found.
type containerCheck struct {
	reason  Reason
	applies func(in *input, c *corev1.Container) (detail string, applies bool)
}

// fileChecks keep the files, and so everything, out of a container.
var fileChecks = []containerCheck{
	{ReasonMountPathTaken, func(in *input, c *corev1.Container) (string, bool) {
		for _, d := range c.VolumeDevices {
			if path.Clean(d.DevicePath) == in.request.MountPath {
				return d.Name + " at " + d.DevicePath, true
			}
		}
		return findMount(c, func(m corev1.VolumeMount) bool {
			return path.Clean(m.MountPath) == in.request.MountPath && !isMount(m, in.volume, in.request.MountPath)
		})
	}},
	{ReasonMountPathReadOnly, func(in *input, c *corev1.Container) (string, bool) {
		return findMount(c, func(m corev1.VolumeMount) bool {
			return below(in.request.MountPath, path.Clean(m.MountPath)) && readOnly(in.pod, m)
		})
	}},
	{ReasonMountPathCovers, func(in *input, c *corev1.Container) (string, bool) {
		return findMount(c, func(m corev1.VolumeMount) bool { return below(path.Clean(m.MountPath), in.request.MountPath) })
	}},
}

func findMount(c *corev1.Container, match func(corev1.VolumeMount) bool) (string, bool) {
	i := slices.IndexFunc(c.VolumeMounts, match)
	if i < 0 {
		return "", false
	}
	return c.VolumeMounts[i].Name + " at " + c.VolumeMounts[i].MountPath, true
}

// envChecks are about the environment; both may apply, and neither keeps the
// other variables out.
var envChecks = []containerCheck{
	{ReasonEnvAlreadySet, func(in *input, c *corev1.Container) (string, bool) {
		var theirs []string
		for _, v := range in.environment() {
			if i := indexEnv(c, v.Name); i >= 0 && (c.Env[i].Value != v.Value || c.Env[i].ValueFrom != nil) {
				theirs = append(theirs, v.Name)
			}
		}
		return strings.Join(theirs, ", "), len(theirs) > 0
	}},
	{ReasonEnvFrom, func(_ *input, c *corev1.Container) (string, bool) { return "", len(c.EnvFrom) > 0 }},
}

// flagChecks keep the flags out of a container that does not have them yet.
var flagChecks = []containerCheck{
	{ReasonShellWrapper, func(_ *input, c *corev1.Container) (string, bool) { return "", commandLineOf(c).isShell() }},
	{ReasonFlagAlreadySet, func(in *input, c *corev1.Container) (string, bool) { return "", flagsIn(in, c) == flagsTheirs }},
	{ReasonNoArgs, func(in *input, c *corev1.Container) (string, bool) {
		return "", len(c.Command)+len(c.Args) == 0 && !in.request.Insists
	}},
}
