package reasons

import (
	"slices"
	"strconv"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
)

// Rule explains a Reason to people.
type Rule struct {
	Reason Reason
	When   string // what was found
	Then   string // what is done or not done
	Do     string // what the pod's owner can do about it; empty if nothing
	Silent bool   // no warning, because the pod's owner wants it
	most   int    // how many characters of a detail are shown; 0 for maxDetail
}

// All returns all rules, in the order in which they apply to a pod. The caller must not change
// them.
func All() []Rule { return all }

var all = slices.Concat([]Rule{
	{Reason: MirrorPod, When: "the pod mirrors a static pod", Then: "the pod is not changed", Silent: true},
	{Reason: OptedOut, When: "the pod has the label " + api.LabelInject + "=" + api.InjectDisabled, Then: "the pod is not changed", Silent: true},
	{Reason: NotConcerned, When: "the pod names no Secret, no annotated Service selects it, and no conventional Secret applies", Then: "nothing is injected", Silent: true},
	{Reason: NotServing, When: "no container declares the target port of the Service", Then: "the pod gets no certificate", Do: "if the pod serves TLS, declare the port in its container, or name the Secret in the pod's annotation " + api.AnnotationSecretName},
	{Reason: Windows, When: "the pod runs on Windows nodes", Then: "nothing is injected", Do: "mount the certificate yourself, or set the label " + api.LabelInject + "=" + api.InjectDisabled},

	{Reason: SeveralServices, When: "Services that select the pod request different Secrets", Then: "the pod gets the Secret of the first Service, whose certificate lacks the names of the others", Do: "for one certificate with all names, set " + api.AnnotationSecretName + " to the same Secret on all of them; to choose another, set it on the pod"},
	{Reason: ImpossibleSecret, When: "a Service that selects the pod requests a Secret whose name is not valid", Then: "the Service is ignored", Do: "correct the Service"},
	{Reason: ServiceRefused, When: "no new certificate is issued for the Service", Then: "the pod is injected, and waits for its certificate if there is none", Do: "correct the Service", most: 220},
	{Reason: ServiceTooLarge, When: "a Service is too large", Then: "it selects no pods, so this pod gets nothing for it", Do: "make the Service smaller, or name its Secret in the pod's annotation " + api.AnnotationSecretName, most: 400},
	{Reason: TooManyPorts, When: "the Services that select the pod have more than " + strconv.Itoa(api.MaxPorts) + " targetPorts that serve TLS", Then: "the others are ignored", Do: "let fewer Services select the pod, or give them fewer ports"},
	{Reason: UnknownAnnotation, When: "an annotation has no meaning on a pod", Then: "it is ignored", Do: "correct its key, or set it on the Service if it belongs there"},
}, formatRules(), []Rule{
	{Reason: BadSetting, When: "a setting of the Service or of the namespace is not valid", Then: "it is ignored", Do: "correct it there", most: 220},
	{Reason: UnknownContainer, When: "the pod has no such container", Then: "nothing is injected for that name", Do: "correct " + api.AnnotationContainers},
	{Reason: AmbiguousContainer, When: "cannot tell which container serves TLS", Then: "all containers get the files and the environment, none gets the flags", Do: "name the container in " + api.AnnotationContainers + ", or declare the Service's targetPort in its ports"},

	{Reason: MountPathTaken, When: "another volume is mounted at the path", Then: "nothing is injected into the container", Do: "set " + api.AnnotationMountPath + " to another directory"},
	{Reason: MountPathReadOnly, When: "the path is inside a read-only mount, where no directory can be created", Then: "nothing is injected into the container", Do: "set " + api.AnnotationMountPath + " to a directory outside it"},
	{Reason: MountPathCovers, When: "the path would hide another mount", Then: "nothing is injected into the container", Do: "set " + api.AnnotationMountPath + " to a directory without other mounts"},

	{Reason: EnvAlreadySet, When: "the container sets the variable itself", Then: "its own value is kept", Do: "remove the variable, or make sure that it points to the injected files"},
	{Reason: EnvFrom, When: "the container has envFrom", Then: "an injected variable takes precedence over one of the same name in envFrom", Do: "to use the latter, set the variable in env, or set " + api.AnnotationMode + ": " + string(api.ModeMount)},
	{Reason: TrustEnvFrom, When: "the container has envFrom, which may define the variable", Then: "it is not set for " + api.AnnotationTrust + ": " + string(api.TrustEnv), Do: "set it in env, or give envFrom a prefix with which no such variable begins", most: 220},
	{Reason: NoPublicRoots, When: "there is no file with the public roots", Then: "variables that replace what a program trusts are not set", Do: "see " + api.Documentation + "trust.md", most: 220},

	{Reason: NoArgs, When: "the container has neither command nor args, and args would replace those of its image", Then: "no flags are injected", Do: "set its args, use the environment, or force the flags with " + api.AnnotationMode + ": " + string(api.ModeArgs)},
	{Reason: InsistedArgs, When: "flags were requested for a container with neither command nor args", Then: "the flags replace the arguments of its image", Do: "set its args if the image needs others"},
	{Reason: ShellWrapper, When: "the container runs a shell or a task runner, which ignores appended arguments", Then: "no flags are injected", Do: "use $" + api.EnvCertFile + " and $" + api.EnvKeyFile + " in the script"},
	{Reason: FlagAlreadySet, When: "the container configures TLS itself", Then: "no flags are injected", Do: "remove its own flags or variables, or make sure that they point to the injected files"},
	{Reason: ProgramNeedsMore, When: "the program needs more than flags and variables", Then: "it gets the files and the usual variables", Do: "see " + api.Documentation + "programs.md", most: 220},
	{Reason: OwnCertificate, When: "the program serves TLS with a certificate of its own", Then: "it gets the files and the usual variables", Do: "see " + api.Documentation + "programs.md", most: 180},
	{Reason: ProgramNote, When: "the program is configured to serve TLS", Then: "its clients may have to change", Do: "see " + api.Documentation + "programs.md", most: 220},
	{Reason: OlderVersion, When: "the image's tag names a version that does not take its certificate in this way", Then: "it gets the files and the usual variables", Do: "use a newer version, or set " + api.AnnotationMode + ": " + string(api.ModeArgs) + " if the tag means something else"},
	{Reason: UnknownVersion, When: "the image's tag does not show whether its version takes its certificate in this way", Then: "it is configured to serve TLS", Do: "use a tag with the version, or set " + api.AnnotationMode + ": " + string(api.ModeArgs)},
	{Reason: PlaintextCall, When: "a container of the pod calls the program without TLS, at the port that would serve TLS", Then: "it gets the files and the usual variables", Do: "change the address to https://, or set " + api.AnnotationMode + ": " + string(api.ModeArgs)},
	{Reason: UnknownProgram, When: "the program is not known, and no flags were requested", Then: "it gets the files and the usual variables", Do: "set " + api.AnnotationMode + ": " + string(api.ModeArgs) + " on pod, Service or Namespace if it takes " + api.DefaultCertFlag + " and " + api.DefaultKeyFlag + ", name its flags in " + api.AnnotationCertFlag + " and " + api.AnnotationKeyFlag + ", or set mode: " + string(api.ModeEnv) + " if it takes none"},
	{Reason: UnaskedFlags, When: "the program is not known, and no flags were requested", Then: "it gets the default flags, and may exit because of them", Do: "set " + api.AnnotationMode + " to " + string(api.ModeArgs) + " if it has these flags, or to " + string(api.ModeEnv) + " if not"},

	{Reason: HTTPProbe, When: "an HTTP probe or hook uses the TLS port", Then: "it remains HTTP, and fails once the port serves TLS", Do: "set " + api.AnnotationHTTPSProbes + `: "true"`},
	{Reason: OtherPort, When: "the program serves TLS on another port than the Service's", Then: "the Service's port does not serve TLS", Do: "change the Service's targetPort"},
	{Reason: TCPProbe, When: "a TCP probe or hook uses the TLS port", Then: "it is not changed, and the server logs a failed handshake each time", Do: "use httpGet with scheme HTTPS"},
	{Reason: GRPCProbe, When: "a gRPC probe uses the TLS port, and the kubelet does not support gRPC probes over TLS", Then: "it is not changed, and fails once the port serves TLS", Do: "use a port without TLS, or an exec probe that speaks TLS, such as grpc_health_probe -tls"},

	{Reason: ProxyPortDeclared, When: "a container declares the port that would request a proxy", Then: "no proxy is added, because the program is assumed to serve TLS there", Silent: true},
	{Reason: ProxyNotAsked, When: "a targetPort of a Service looks like a request for a proxy, but requests none", Then: "no proxy is added, and the pod is not an endpoint of the port", Do: "use sc-tls-PORT or sc-any-PORT on a Service that requests a certificate; PORT is a number or a name of at most 8 characters", most: 220},
	{Reason: ProxyOtherSecret, When: "a Service requests a proxy with another Secret than the pod's", Then: "no port is added for it; if another Service has the same targetPort, its clients get the certificate of that Service", Do: "set " + api.AnnotationSecretName + " to the same Secret on both", most: 220},
	{Reason: ProxyHostNetwork, When: "the pod is static, or uses the host network, where a proxy would listen on the node's addresses", Then: "no proxy is added, and the pod is not an endpoint of the port", Do: "remove hostNetwork, or let the program serve TLS itself"},
	{Reason: ProxyNameTaken, When: "the pod has a container " + api.ProxyContainer + " that was not added for its Secret", Then: "no port is added to it, and unless it is a copied proxy, the pod connects to no Service", Do: "rename or remove it; if the pod is a copy, copy its workload instead"},
	{Reason: ProxyNoImage, When: "a Service requests a proxy, or the pod connects to one, but the webhook has no proxy image", Then: "no proxy is added, the pod is not an endpoint of the port, and its calls leave it as its programs make them", Do: "set --proxy-image of the webhook (values proxy.enabled and proxy.image of the chart)"},
	{Reason: ProxyNoUpstream, When: "no container declares the port to which the proxy would forward", Then: "no proxy is added, and the pod is not an endpoint of the port", Do: "declare the port in the program's container, or give its number in the Service's targetPort"},
	{Reason: ProxyNotTCP, When: "the port to which the proxy would forward, or one with the name of its own port, is declared with another protocol than TCP", Then: "no proxy is added, and the pod is not an endpoint of the port", Do: "correct the Service's targetPort, or the protocol"},
	{Reason: ProxyUpstreamTLS, When: "the program itself serves TLS on the port to which the proxy would forward", Then: "no proxy is added, and the pod is not an endpoint of the port", Do: "set the Service's targetPort to the program's port, or turn off the program's TLS; if the webhook turned it on, " + api.AnnotationMode + ": " + string(api.ModeMount) + " does that"},
	{Reason: ProxyTooManyPorts, When: "the Services request a proxy on too many ports", Then: "no proxy is added for these, and the pod is not an endpoint of them", Do: "request at most " + strconv.Itoa(api.MaxProxyPorts)},
	{Reason: ProxyProtocolUnused, When: api.AnnotationProxyProtocol + " lists a port to which no proxy of the pod sends the header", Then: "the annotation has no effect on that port", Do: "list the number of the program's port to which targetPort sc-tls-PORT or sc-any-PORT of a Service leads"},

	{Reason: NotConnected, When: "a Service in " + api.AnnotationConnect + " is left out", Then: "calls to it leave the pod as its programs make them", Do: "see " + api.Documentation + "connect.md", most: 400},

	{Reason: NoIdentity, When: "the pod requests its identity for its programs, and can have none", Then: "they get no client certificate", Do: "see " + api.Documentation + "identities.md", most: 220},
	{Reason: NoProxyIdentity, When: "pods have no identities in this cluster", Then: "the pod's proxy verifies the Services that it calls, and shows them no certificate", Do: "see " + api.Documentation + "identities.md", Silent: true},
	{Reason: NotGuarded, When: "a Service lists its clients in " + api.AnnotationClients + ", but not each of its TCP ports has a proxy that asks for their identity", Then: "such a port admits all", Do: "remove the port from the Service, set its targetPort to sc-tls-PORT, or let the program verify its clients", most: 300},
	{Reason: TooManyClients, When: "the lists of clients of the Services are too long for one pod", Then: "the proxy admits nobody at these ports", Do: "shorten " + api.AnnotationClients + ", for example by NAMESPACE/*"},

	{Reason: StatusTooLarge, When: "the pod's annotations leave no room for the status", Then: "the pod is injected without " + api.AnnotationStatus, Do: "shorten the pod's annotations"},
})

// NoFormat returns the Reason for a pod that requests a format which its Secret does not
// hold, such as NoCombined.
func NoFormat(f *formats.Format) Reason {
	return Reason("No" + strings.ToUpper(f.Name[:1]) + f.Name[1:] + "File")
}

// formatRules returns the rule of each format.
func formatRules() []Rule {
	var out []Rule
	for f := range formats.Asked().Formats() {
		out = append(out, Rule{
			Reason: NoFormat(f), When: "the pod requests " + strings.Join(f.Files, " and ") + ", which its Secret does not hold",
			Then: "it gets the other files", Do: "set " + AskFor(formats.Of(f)),
		})
	}
	return out
}

// AskFor returns how to request the formats, as a phrase.
func AskFor(wanted formats.Set) string {
	var words []string
	for f := range wanted.Formats() {
		words = append(words, f.Word)
	}
	return api.AnnotationFormats + ": " + strings.Join(words, ",") + " on the Service"
}

// Of returns the rule for the reason; without texts if there is none.
func Of(r Reason) Rule {
	i := slices.IndexFunc(all, func(rule Rule) bool { return rule.Reason == r })
	if i < 0 {
		return Rule{Reason: r}
	}
	return all[i]
}
