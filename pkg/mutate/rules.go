package mutate

import (
	"slices"

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

// rule explains a Reason to people.
type rule struct {
	reason Reason
	when   string // what was found
	then   string // what is done or not
	do     string // what its owner can do about it; empty: nothing needs doing
	silent bool   // no warning: the pod's owner wanted it, or is not concerned
}

// rules is the whole rule set, in the order in which a pod meets it. The checks
// that go with the rules are below.
var rules = []rule{
	{reason: ReasonMirrorPod, when: "the pod mirrors a static pod", then: "the pod is left alone", silent: true},
	{reason: ReasonOptedOut, when: "the pod has the label " + api.LabelInject + "=" + api.InjectDisabled, then: "the pod is left alone", silent: true},
	{reason: ReasonNotConcerned, when: "the pod names no Secret, no annotated Service selects it, and no conventional Secret applies", then: "the pod is left alone", silent: true},
	{reason: ReasonWindows, when: "the pod is for Windows nodes", then: "nothing is injected", do: "mount the Secret yourself, or set the label " + api.LabelInject + "=" + api.InjectDisabled},

	{reason: ReasonSeveralServices, when: "several annotated Services select the pod", then: "the oldest decides", do: "name the Secret in the pod's annotation " + api.AnnotationSecretName},
	{reason: ReasonImpossibleSecret, when: "a Service that selects the pod names a Secret that cannot exist", then: "it counts as one that names none", do: "correct the Service"},
	{reason: ReasonServiceRefused, when: "the Service gets no new certificate", then: "the pod is injected and starts only if its Secret exists", do: "correct the Service"},
	{reason: ReasonUnknownAnnotation, when: "an annotation means nothing on a pod", then: "it is ignored", do: "correct its name, or put it on the Service if it belongs there"},
	{reason: ReasonUnknownContainer, when: "the pod has no such container", then: "nothing is injected for that name", do: "correct " + api.AnnotationContainers},
	{reason: ReasonAmbiguousContainer, when: "no rule tells which container serves", then: "files and environment go to all, flags to none", do: "name it in " + api.AnnotationContainers + ", or declare the Service's targetPort in its ports"},

	{reason: ReasonMountPathTaken, when: "another volume is mounted at the path", then: "nothing is injected into the container", do: "set " + api.AnnotationMountPath + " to a free directory"},
	{reason: ReasonMountPathReadOnly, when: "the path lies in a read-only mount, where no directory can be made", then: "nothing is injected into the container", do: "set " + api.AnnotationMountPath + " to a directory outside it"},
	{reason: ReasonMountPathCovers, when: "the path would cover another mount", then: "nothing is injected into the container", do: "set " + api.AnnotationMountPath + " to a directory of its own"},

	{reason: ReasonEnvAlreadySet, when: "the container sets the variable itself", then: "its own value stays", do: "remove the variable, or see that it names the injected files"},
	{reason: ReasonEnvFrom, when: "the container has an envFrom", then: "an injected variable wins over one of the same name in it", do: "set the variable in env if the other is meant, or " + api.AnnotationMode + ": " + string(api.ModeMount)},

	{reason: ReasonNoArgs, when: "the container has neither command nor args, and args would replace those of its image", then: "no flags are injected", do: "write out its args, use the environment, or insist with " + api.AnnotationMode + ": " + string(api.ModeArgs)},
	{reason: ReasonInsistedArgs, when: "the pod insists on flags for a container with neither command nor args", then: "the flags replace the arguments of its image", do: "write out its args if its image needs others"},
	{reason: ReasonShellWrapper, when: "the container runs a shell, which ignores appended arguments", then: "no flags are injected", do: "use $" + api.EnvCertFile + " and $" + api.EnvKeyFile + " in the script"},
	{reason: ReasonFlagAlreadySet, when: "the command line has one of the flags already", then: "no flags are injected", do: "remove it, or see that both name the injected files"},

	{reason: ReasonHTTPProbe, when: "an HTTP probe or hook uses the TLS port", then: "it stays HTTP and fails once the port serves TLS", do: "set " + api.AnnotationHTTPSProbes + `: "true"`},
	{reason: ReasonTCPProbe, when: "a TCP probe or hook uses the TLS port", then: "it stays, and the server logs a failed handshake for each", do: "use httpGet with scheme HTTPS"},
	{reason: ReasonGRPCProbe, when: "a gRPC probe uses the TLS port, and the kubelet's speaks no TLS", then: "it stays and fails once the port serves TLS", do: "probe another port"},

	{reason: ReasonStatusTooLarge, when: "the pod's annotations leave no room for the status", then: "it is injected without " + api.AnnotationStatus, do: "shorten its annotations"},
}

// ruleOf returns the rule with the reason; of one that stands in no rule, nothing else.
func ruleOf(r Reason) rule {
	i := slices.IndexFunc(rules, func(rule rule) bool { return rule.reason == r })
	if i < 0 {
		return rule{reason: r}
	}
	return rules[i]
}
