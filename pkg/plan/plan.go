// Package plan works out how each Service of a cluster, or of manifests, can serve TLS: which
// ports serve it today, how the others can, which clients use plaintext, and in which order to
// proceed. Package mutate, which the webhook uses too, decides what a program does with a
// certificate.
//
// A [Builder] gets the Services first and then all other objects, in any order. It keeps its
// results and not the objects, so that a large cluster can be read in pages.
package plan

import "k8s.io/apimachinery/pkg/util/intstr"

// Plan is the result of a [Builder].
type Plan struct {
	// Services are sorted in the order in which to proceed.
	Services []Service `json:"services"`
	// Clients are the workloads that call these Services in plaintext, in the order in which to proceed.
	Clients []Client `json:"clients,omitempty"`
	Totals  Totals   `json:"totals"`
	// Unread lists the objects that could not be read, with the errors. Their references are missing.
	Unread []string `json:"unread,omitempty"`
	// Forbidden lists the rights that the steps of these Services need and the user lacks. A Builder does not know them.
	Forbidden []string `json:"forbidden,omitempty"`
}

// Totals count the Services by their Way, and the references that have to change.
type Totals struct {
	Services   int         `json:"services"`
	Ways       map[Way]int `json:"ways"`
	References int         `json:"plaintextReferences"`
	// Programs counts those of the References that programs read, and Connect those of these that the steps of Clients
	// move without a change of a program.
	Programs int `json:"programReferences"`
	Connect  int `json:"connectReferences"`
}

// Way is how a Service can serve TLS.
type Way string

// The ways.
const (
	WayPort    Way = "port"    // add a port at which the proxy serves TLS
	WayNative  Way = "native"  // annotate the Service: its program uses the certificate, or a port requests the proxy
	WayRollout Way = "rollout" // roll out the pods, which are older than the request for TLS
	WayMove    Way = "move"    // move the clients: TLS is served beside plaintext
	WayCheck   Way = "check"   // verify the ports in Service.Why: they should serve TLS, or the webhook refuses their proxy
	WayDone    Way = "done"    // all its ports serve TLS
	WayNone    Way = "none"    // not possible, or unknown; Service.Why is the cause
)

// Ways returns all ways, in the order of presentation.
func Ways() []Way { return []Way{WayPort, WayNative, WayRollout, WayMove, WayCheck, WayDone, WayNone} }

// Service is the plan of one Service.
type Service struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Wave is the position in the order, from 1: a Service is in a later wave than those that its
	// workloads call, so that each workload is rolled out once. 0 if there is nothing to do.
	Wave int    `json:"wave"`
	Way  Way    `json:"way"`
	Why  string `json:"why,omitempty"`
	// Secret is the requested or proposed Secret; empty if none.
	Secret string `json:"secret,omitempty"`
	// Serving is the reason of condition servingcert.dev/Serving; empty without the condition.
	Serving string `json:"serving,omitempty"`
	// OptIn is true if the steps contain opting the namespace in.
	OptIn bool `json:"optIn,omitempty"`
	// ManagedBy is the GitOps tool that reverts changes in the cluster; empty if none is known.
	ManagedBy string `json:"managedBy,omitempty"`
	// Workloads are the selected workloads: KIND/NAME.
	Workloads []string `json:"workloads,omitempty"`
	// Without are the Workloads whose pods do not use its certificate.
	Without []string `json:"without,omitempty"`
	Ports   []Port   `json:"ports"`
	// References are at most MaxReferences, first those of its namespace; MoreReferences counts the others.
	References     []Reference `json:"references,omitempty"`
	MoreReferences int         `json:"moreReferences,omitempty"`
	// ToMove counts the plaintext references that have to change before plaintext is removed.
	ToMove int `json:"toMove"`
	// Programs and Connect count references as in Totals.
	Programs int    `json:"programReferences,omitempty"`
	Connect  int    `json:"connectReferences,omitempty"`
	Steps    []Step `json:"steps,omitempty"`
	// Patch is the addition to the Service; nil if there is nothing to add.
	Patch *Patch `json:"patch,omitempty"`
	// Guard is the plan of its list of clients; nil if there is nothing to do or to tell, or pods have no identities.
	Guard *Guard `json:"guard,omitempty"`

	request request        // the requested or proposed annotation
	content map[string]any // the manifest of the Service

	asks      bool                 // for a certificate
	moreOwn   int                  // among MoreReferences, those that are not of other namespaces
	outdated  bool                 // Serving is about an earlier certificate or other ports
	noRotator string               // why Serving may be outdated
	dialled   []intstr.IntOrString // the target ports that Serving is about, each by itself
}

// Step is one manual step.
type Step struct {
	What    string `json:"what"`
	Command string `json:"command,omitempty"`
	// Back is the command that undoes it, if it is not obvious.
	Back string `json:"back,omitempty"`
}

// Today is the current protocol of a port.
type Today string

// The current protocols of ports.
const (
	TodayTLS       Today = "tls"       // the program serves TLS with the injected certificate
	TodayOwn       Today = "own"       // the kubelet probes the program by HTTPS
	TodayDeclared  Today = "declared"  // the port should serve TLS, but this is not verified; Port.By is the evidence, or what is missing
	TodayProxy     Today = "proxy"     // the proxy serves TLS
	TodayAny       Today = "any"       // the proxy serves TLS and plaintext
	TodayAsked     Today = "asked"     // the Service requests the proxy, but pods lack it; Port.By is the cause
	TodayPlaintext Today = "plaintext" // no TLS
	TodayUnknown   Today = "unknown"   // no known workload serves the port
)

// Secure reports whether the port serves TLS and no plaintext.
func (t Today) Secure() bool {
	return t == TodayTLS || t == TodayOwn || t == TodayProxy
}

// Port is the plan of one port of a Service.
type Port struct {
	Name     string `json:"name,omitempty"`
	Port     int32  `json:"port"`
	Target   string `json:"targetPort"`
	Protocol string `json:"protocol"`
	Today    Today  `json:"today"`
	// By is the evidence for Today.
	By string `json:"by,omitempty"`
	// Beside is the Service's port that serves TLS for the same port of the program, or 0.
	Beside int32 `json:"beside,omitempty"`
	// Proxy is the targetPort to add, such as sc-tls-8080; empty if none is to be added. If
	// none can be, ProxyNot is the cause.
	Proxy    string `json:"proxy,omitempty"`
	ProxyNot string `json:"proxyNot,omitempty"`
	// Native is the alternative of TLS by the program; nil if it is unknown.
	Native *Native `json:"native,omitempty"`
	// Notes are warnings about the proxy.
	Notes []string `json:"notes,omitempty"`

	annotate, rollOut bool     // the step that a port that is TodayAsked needs
	refused           bool     // the webhook refuses the requested proxy; By is its note
	unseen            bool     // it should serve TLS, but the rotator has not seen that
	without           []string // the workloads that get no proxy for it
}

// Native describes TLS by the program itself.
type Native struct {
	// Possible is true if the webhook would make each container serve TLS on this port.
	Possible bool `json:"possible"`
	// Detail is what the webhook would inject, or why it would not.
	Detail string `json:"detail"`
	// Breaks are the known callers that would fail.
	Breaks []string `json:"breaks,omitempty"`
}

// Speaks is the protocol of a reference.
type Speaks string

// The protocols of references.
const (
	SpeaksPlaintext Speaks = "plaintext"
	SpeaksTLS       Speaks = "tls"
	SpeaksUnknown   Speaks = "unknown" // no scheme, or one for both, such as postgres
)

// Via is where a reference was found.
type Via string

// Where references are found.
const (
	ViaEnv            Via = "env"
	ViaArgs           Via = "args" // command and args
	ViaConfigMap      Via = "configmap"
	ViaIngress        Via = "ingress"
	ViaRoute          Via = "route" // of the Gateway API, or of OpenShift
	ViaServiceMonitor Via = "servicemonitor"
	ViaScrape         Via = "scrape" // prometheus.io annotations
	ViaAPIService     Via = "apiservice"
	ViaWebhook        Via = "webhook" // admission and conversion
	ViaExternalName   Via = "externalname"
	ViaProbe          Via = "probe" // the kubelet's calls
	ViaLocalhost      Via = "localhost"
)

// Stays reports whether such a caller needs no change when the proxy is added, because it calls
// the program inside the pod.
func (v Via) Stays() bool { return v == ViaProbe || v == ViaLocalhost }

// Reference is a place in an object that refers to a Service, or calls its program.
type Reference struct {
	Via       Via    `json:"via"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Where is the place in the object, such as "container app, env WEB_URL".
	Where string `json:"where"`
	// Address is the address in the object, without user and password.
	Address string `json:"address,omitempty"`
	// Port is the port of the Service; 0 if it is unknown or not one of them.
	Port   int32  `json:"port,omitempty"`
	Speaks Speaks `json:"speaks"`
	// Change are the known annotations that have to change for it to use TLS.
	Change []string `json:"change,omitempty"`
	// UsedBy are the workloads that use the ConfigMap: KIND/NAME.
	UsedBy []string `json:"usedBy,omitempty"`
	// Moves is how the reference of a program becomes TLS; empty for other references, and for those that need not.
	Moves Moves `json:"moves,omitempty"`
	// ByHand is why the program has to be given another address.
	ByHand string `json:"byHand,omitempty"`
}

// MaxReferences is the number of references that are listed for a Service.
const MaxReferences = 100
