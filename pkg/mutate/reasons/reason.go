// Package reasons lists the reasons why something is injected into a pod or not, and explains each
// to people, as in docs/injection.md. It is pure, and decides nothing: package mutate and the
// packages below it find out which reasons apply to a pod.
//
//	note := reasons.Note{Reason: reasons.NoArgs, Containers: []string{"web"}}
//	fmt.Println(note) // container web: the container has neither command nor args, …
package reasons

import "github.com/servingcert/servingcert/pkg/api"

// Reason is why something was done or not. The fixed set of reasons is used in a metrics label
// and in audit annotations.
type Reason string

// All Reasons, except one for each format; see [NoFormat]. They are part of the contract.
const (
	Injected Reason = "Injected"

	MirrorPod    Reason = api.ExemptMirrorPod
	OptedOut     Reason = api.ExemptOptedOut
	NotConcerned Reason = "NotConcerned"
	NotServing   Reason = "NotServing"
	Windows      Reason = api.ExemptWindows

	SeveralServices    Reason = "SeveralServices"
	ImpossibleSecret   Reason = "ImpossibleSecret"
	ServiceRefused     Reason = "ServiceRefused"
	ServiceTooLarge    Reason = "ServiceTooLarge"
	TooManyPorts       Reason = "TooManyPorts"
	UnknownAnnotation  Reason = "UnknownAnnotation"
	NoCombined         Reason = "NoCombinedFile"
	BadSetting         Reason = "BadSetting"
	UnknownContainer   Reason = "UnknownContainer"
	AmbiguousContainer Reason = "AmbiguousContainer"

	MountPathTaken    Reason = "MountPathTaken"
	MountPathReadOnly Reason = "MountPathReadOnly"
	MountPathCovers   Reason = "MountPathCovers"

	EnvAlreadySet Reason = "EnvAlreadySet"
	EnvFrom       Reason = "EnvFrom"
	TrustEnvFrom  Reason = "TrustEnvFrom"
	NoPublicRoots Reason = "NoPublicRoots"

	NoArgs         Reason = "NoArgs"
	InsistedArgs   Reason = "InsistedArgs"
	ShellWrapper   Reason = "ShellWrapper"
	FlagAlreadySet Reason = "FlagAlreadySet"

	ProgramNeedsMore Reason = "ProgramNeedsMore"
	OwnCertificate   Reason = "OwnCertificate"
	ProgramNote      Reason = "ProgramNote"
	OlderVersion     Reason = "OlderVersion"
	UnknownVersion   Reason = "UnknownVersion"
	PlaintextCall    Reason = "PlaintextCall"
	UnknownProgram   Reason = "UnknownProgram"
	UnaskedFlags     Reason = "UnaskedFlags"

	ProxyPortDeclared Reason = "ProxyPortDeclared"
	ProxyNotAsked     Reason = "ProxyNotAsked"
	ProxyOtherSecret  Reason = "ProxyOtherSecret"
	ProxyHostNetwork  Reason = "ProxyHostNetwork"
	ProxyNameTaken    Reason = "ProxyNameTaken"
	ProxyNoImage      Reason = "ProxyNoImage"
	ProxyNoUpstream   Reason = "ProxyNoUpstream"
	ProxyNotTCP       Reason = "ProxyNotTCP"
	ProxyUpstreamTLS  Reason = "ProxyUpstreamTLS"
	ProxyTooManyPorts Reason = "ProxyTooManyPorts"

	ProxyProtocolUnused Reason = "ProxyProtocolUnused"

	NotConnected Reason = "NotConnected"
	// NoIdentity: api.AnnotationIdentity has no effect on the pod.
	NoIdentity Reason = "NoIdentity"
	// NoProxyIdentity: the pod's proxy connects without an identity.
	NoProxyIdentity Reason = "NoProxyIdentity"
	// NotGuarded: api.AnnotationClients of a Service has no effect on a port of the pod.
	NotGuarded Reason = "NotGuarded"
	// TooManyClients: the lists of clients are too long together.
	TooManyClients Reason = "TooManyClients"

	HTTPProbe Reason = "HTTPProbe"
	TCPProbe  Reason = "TCPProbe"
	GRPCProbe Reason = "GRPCProbe"
	OtherPort Reason = "OtherPort"

	StatusTooLarge Reason = "StatusTooLarge"
)
