package mutate

import (
	"slices"

	"github.com/servingcert/servingcert/pkg/api"
)

// Reason is why something was done or not. It is a label value of metrics and part of
// audit annotations, from a small fixed set.
type Reason string

// All Reasons. They are part of the contract.
const (
	reasonInjected Reason = "Injected"

	ReasonMirrorPod    Reason = api.ExemptMirrorPod
	ReasonOptedOut     Reason = api.ExemptOptedOut
	ReasonNotConcerned Reason = "NotConcerned"
	ReasonNotServing   Reason = "NotServing"
	ReasonWindows      Reason = api.ExemptWindows

	reasonSeveralServices    Reason = "SeveralServices"
	reasonImpossibleSecret   Reason = "ImpossibleSecret"
	reasonServiceRefused     Reason = "ServiceRefused"
	reasonServiceTooLarge    Reason = "ServiceTooLarge"
	reasonUnknownAnnotation  Reason = "UnknownAnnotation"
	reasonNoCombined         Reason = "NoCombinedFile"
	reasonBadSetting         Reason = "BadSetting"
	reasonUnknownContainer   Reason = "UnknownContainer"
	reasonAmbiguousContainer Reason = "AmbiguousContainer"

	reasonMountPathTaken    Reason = "MountPathTaken"
	reasonMountPathReadOnly Reason = "MountPathReadOnly"
	reasonMountPathCovers   Reason = "MountPathCovers"

	reasonEnvAlreadySet Reason = "EnvAlreadySet"
	reasonEnvFrom       Reason = "EnvFrom"

	reasonNoArgs         Reason = "NoArgs"
	reasonInsistedArgs   Reason = "InsistedArgs"
	reasonShellWrapper   Reason = "ShellWrapper"
	reasonFlagAlreadySet Reason = "FlagAlreadySet"

	reasonProgramNeedsMore Reason = "ProgramNeedsMore"
	reasonProgramNote      Reason = "ProgramNote"
	reasonOlderVersion     Reason = "OlderVersion"
	reasonUnknownVersion   Reason = "UnknownVersion"
	reasonPlaintextCall    Reason = "PlaintextCall"
	reasonUnknownProgram   Reason = "UnknownProgram"
	reasonUnaskedFlags     Reason = "UnaskedFlags"
	reasonFlagsWithheld    Reason = "FlagsWithheld"

	reasonHTTPProbe Reason = "HTTPProbe"
	reasonTCPProbe  Reason = "TCPProbe"
	reasonGRPCProbe Reason = "GRPCProbe"
	reasonOtherPort Reason = "OtherPort"

	reasonStatusTooLarge Reason = "StatusTooLarge"
)

// rule explains a Reason to people.
type rule struct {
	reason Reason
	when   string // what was found
	then   string // what is done or not done
	do     string // what the pod's owner can do about it; empty if nothing
	silent bool   // there is no warning, because it is what the pod's owner wants
	most   int    // how many characters of a detail are shown; 0 for maxDetail
}

// rules are all rules, in the order in which they apply to a pod. The checks that find
// what they are about are in checks.go, choose.go, containers.go and probes.go.
var rules = []rule{
	{reason: ReasonMirrorPod, when: "the pod mirrors a static pod", then: "the pod is not changed", silent: true},
	{reason: ReasonOptedOut, when: "the pod has the label " + api.LabelInject + "=" + api.InjectDisabled, then: "the pod is not changed", silent: true},
	{reason: ReasonNotConcerned, when: "the pod names no Secret, no annotated Service selects it, and no conventional Secret applies", then: "nothing is injected", silent: true},
	{reason: ReasonNotServing, when: "no container declares the target port of the Service", then: "the pod gets no certificate", do: "if the pod serves TLS, declare the port in its container, or name the Secret in the pod's annotation " + api.AnnotationSecretName},
	{reason: ReasonWindows, when: "the pod runs on Windows nodes", then: "nothing is injected", do: "mount the certificate yourself, or set the label " + api.LabelInject + "=" + api.InjectDisabled},

	{reason: reasonSeveralServices, when: "Services that select the pod ask for different Secrets", then: "the pod gets that of the first Service, whose certificate lacks the names of the others", do: "for one certificate with all names, set " + api.AnnotationSecretName + " to the same Secret on all of them; to choose another, set it on the pod"},
	{reason: reasonImpossibleSecret, when: "a Service that selects the pod asks for a Secret whose name is not valid", then: "the Service is ignored", do: "correct the Service"},
	{reason: reasonServiceRefused, when: "no new certificate is issued for the Service", then: "the pod is injected, and waits for its certificate if there is none", do: "correct the Service", most: 220},
	{reason: reasonServiceTooLarge, when: "a Service is larger than is allowed", then: "it selects no pod, so that this one gets nothing for it", do: "make the Service smaller, or name its Secret in the pod's annotation " + api.AnnotationSecretName, most: 400},
	{reason: reasonUnknownAnnotation, when: "an annotation has no meaning on a pod", then: "it is ignored", do: "correct its key, or set it on the Service if it belongs there"},
	{reason: reasonNoCombined, when: "the pod asks for " + api.CombinedKey + ", which its Secret does not hold", then: "it gets the other files", do: "set " + api.AnnotationCombinedPEM + `: "true" on the Service`},
	{reason: reasonBadSetting, when: "a setting of the Service or of the namespace is not valid", then: "it is ignored", do: "correct it there", most: 220},
	{reason: reasonUnknownContainer, when: "the pod has no such container", then: "nothing is injected for that name", do: "correct " + api.AnnotationContainers},
	{reason: reasonAmbiguousContainer, when: "cannot tell which container serves TLS", then: "all containers get the files and the environment, none gets the flags", do: "name the container in " + api.AnnotationContainers + ", or declare the Service's targetPort in its ports"},

	{reason: reasonMountPathTaken, when: "another volume is mounted at the path", then: "nothing is injected into the container", do: "set " + api.AnnotationMountPath + " to another directory"},
	{reason: reasonMountPathReadOnly, when: "the path is inside a read-only mount, where no directory can be created", then: "nothing is injected into the container", do: "set " + api.AnnotationMountPath + " to a directory outside it"},
	{reason: reasonMountPathCovers, when: "the path would hide another mount", then: "nothing is injected into the container", do: "set " + api.AnnotationMountPath + " to a directory without other mounts"},

	{reason: reasonEnvAlreadySet, when: "the container sets the variable itself", then: "its own value is kept", do: "remove the variable, or make sure that it points to the injected files"},
	{reason: reasonEnvFrom, when: "the container has envFrom", then: "an injected variable takes precedence over one of the same name in envFrom", do: "to use the latter, set the variable in env, or set " + api.AnnotationMode + ": " + string(api.ModeMount)},

	{reason: reasonNoArgs, when: "the container has neither command nor args, and args would replace those of its image", then: "no flags are injected", do: "set its args, use the environment, or force the flags with " + api.AnnotationMode + ": " + string(api.ModeArgs)},
	{reason: reasonInsistedArgs, when: "the pod asks for flags in a container with neither command nor args", then: "the flags replace the arguments of its image", do: "set its args if the image needs others"},
	{reason: reasonShellWrapper, when: "the container runs a shell or a task runner, which ignores appended arguments", then: "no flags are injected", do: "use $" + api.EnvCertFile + " and $" + api.EnvKeyFile + " in the script"},
	{reason: reasonFlagAlreadySet, when: "the container configures TLS itself", then: "no flags are injected", do: "remove its own flags or variables, or make sure that they point to the injected files"},
	{reason: reasonProgramNeedsMore, when: "the program needs more than flags and variables", then: "it gets the files and the usual variables", do: "see docs/programs.md", most: 220},
	{reason: reasonProgramNote, when: "the program is told to serve TLS", then: "those who call it may have to change", do: "see docs/programs.md", most: 220},
	{reason: reasonOlderVersion, when: "the image's tag is that of a version that does not take its certificate in this way", then: "it gets the files and the usual variables", do: "use a newer version, or set " + api.AnnotationMode + ": " + string(api.ModeArgs) + " if the tag means something else"},
	{reason: reasonUnknownVersion, when: "the image's tag does not say whether its version takes the certificate in this way", then: "it is told to serve TLS", do: "use a tag with the version, or set " + api.AnnotationMode + ": " + string(api.ModeArgs)},
	{reason: reasonPlaintextCall, when: "a container of the pod calls the program without TLS, at the port that would serve TLS", then: "it gets the files and the usual variables", do: "change the address to https://, or set " + api.AnnotationMode + ": " + string(api.ModeArgs)},
	{reason: reasonUnknownProgram, when: "the program is not known, and no flags were requested", then: "it gets the files and the usual variables", do: "set " + api.AnnotationMode + ": " + string(api.ModeArgs) + " on pod, Service or Namespace if it takes " + api.DefaultCertFlag + " and " + api.DefaultKeyFlag + ", name its flags in " + api.AnnotationCertFlag + " and " + api.AnnotationKeyFlag + ", or set mode: " + string(api.ModeEnv) + " if it takes none"},
	{reason: reasonUnaskedFlags, when: "the program is not known, and no flags were requested", then: "it gets them; if it exits because of them, new pods do not", do: "set " + api.AnnotationMode + " to " + string(api.ModeArgs) + " if it knows them, or to " + string(api.ModeEnv) + " if not"},
	{reason: reasonFlagsWithheld, when: "the program exited when it was given unrequested flags", then: "no flags are injected", do: "set " + api.AnnotationMode + ": " + string(api.ModeArgs) + " if it knows them, or name its flags in " + api.AnnotationCertFlag + " and " + api.AnnotationKeyFlag},

	{reason: reasonHTTPProbe, when: "an HTTP probe or hook uses the TLS port", then: "it remains HTTP, and fails once the port serves TLS", do: "set " + api.AnnotationHTTPSProbes + `: "true"`},
	{reason: reasonOtherPort, when: "the program serves TLS on another port than that of the Service", then: "the Service's port does not serve TLS", do: "change the Service's targetPort"},
	{reason: reasonTCPProbe, when: "a TCP probe or hook uses the TLS port", then: "it is not changed, and the server logs a failed handshake each time", do: "use httpGet with scheme HTTPS"},
	{reason: reasonGRPCProbe, when: "a gRPC probe uses the TLS port, and the kubelet does not support gRPC probes over TLS", then: "it is not changed, and fails once the port serves TLS", do: "use a port without TLS, or an exec probe that speaks TLS, such as grpc_health_probe -tls"},

	{reason: reasonStatusTooLarge, when: "the pod's annotations leave no room for the status", then: "the pod is injected without " + api.AnnotationStatus, do: "shorten the pod's annotations"},
}

// ruleOf returns the rule for the reason, without any text if there is none.
func ruleOf(r Reason) rule {
	i := slices.IndexFunc(rules, func(rule rule) bool { return rule.reason == r })
	if i < 0 {
		return rule{reason: r}
	}
	return rules[i]
}
