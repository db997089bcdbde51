// Package plan says for the Services of a cluster, or of manifests, how each comes to serve TLS:
// what speaks TLS today, what would and how, who refers to a Service without TLS, and in which
// order to go. It decides nothing by itself that the webhook decides too: what a program would do
// with a certificate is asked of package mutate.
//
// A [Builder] is given the Services and then, in any order, everything else. It keeps what it
// found and not the objects, so that a large cluster can be read in pages.
package plan

// Plan is what a [Builder] found.
type Plan struct {
	// Services are those that were given, in the order to go.
	Services []Service `json:"services"`
	Totals   Totals    `json:"totals"`
	// Unread is what could not be read, and why. References in it are missing.
	Unread []string `json:"unread,omitempty"`
	// Forbidden is what the user may not do, of what the steps need.
	Forbidden []string `json:"forbidden,omitempty"`
}

// Totals count Services by their Way, and the references that have to change.
type Totals struct {
	Services   int         `json:"services"`
	Ways       map[Way]int `json:"ways"`
	References int         `json:"plaintextReferences"`
}

// Way is how a Service comes to serve TLS.
type Way string

// The ways.
const (
	WayPort    Way = "port"    // add a port, behind which a proxy serves TLS
	WayNative  Way = "native"  // annotate the Service: its program takes the certificate by itself, or a port asks for the proxy
	WayRollout Way = "rollout" // it asks for TLS, and its pods are older: roll them out
	WayMove    Way = "move"    // TLS is served beside plaintext: move the clients
	WayCheck   Way = "check"   // its ports are to serve TLS, and nobody has seen it; Service.Why says of which
	WayDone    Way = "done"    // all its ports serve TLS
	WayNone    Way = "none"    // it cannot, or it is not known how; Service.Why says why
)

// Ways are all of them, in the order in which a person would look at them.
func Ways() []Way { return []Way{WayPort, WayNative, WayRollout, WayMove, WayCheck, WayDone, WayNone} }

// Service is the plan of one Service.
type Service struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Wave is when to go, from 1: a Service is in a later wave than those that its workloads
	// call, so that each workload is rolled out once. 0 if there is nothing to do.
	Wave int    `json:"wave"`
	Way  Way    `json:"way"`
	Why  string `json:"why,omitempty"`
	// Secret is the one that the Service asks for, or is to ask for; empty if none.
	Secret string `json:"secret,omitempty"`
	// Serving is the reason of condition servingcert.dev/Serving; empty if there is none.
	Serving string `json:"serving,omitempty"`
	// OptIn: its namespace is not known to be opted in, which is a step of its own.
	OptIn bool `json:"optIn,omitempty"`
	// ManagedBy is what takes back changes that are made in the cluster; empty if nothing is known to.
	ManagedBy string `json:"managedBy,omitempty"`
	// Workloads are those that it selects: KIND/NAME.
	Workloads []string `json:"workloads,omitempty"`
	// Without are those of the Workloads whose pods do not take its certificate.
	Without []string `json:"without,omitempty"`
	Ports   []Port   `json:"ports"`
	// References are who refers to it, at most MaxReferences; MoreReferences are the others.
	References     []Reference `json:"references,omitempty"`
	MoreReferences int         `json:"moreReferences,omitempty"`
	// ToMove counts the plaintext references that have to change before plaintext can go.
	ToMove int    `json:"toMove"`
	Steps  []Step `json:"steps,omitempty"`
	// Patch is what is to be added to the Service; nil if nothing.
	Patch *Patch `json:"patch,omitempty"`

	request request        // what it asks for, or is to ask for
	content map[string]any // the Service, as it is written
}

// Step is one thing that a person does.
type Step struct {
	What    string `json:"what"`
	Command string `json:"command,omitempty"`
}

// Today is what a port speaks as things are.
type Today string

// What a port can speak.
const (
	TodayTLS       Today = "tls"       // the program serves TLS with the certificate that it gets
	TodayOwn       Today = "own"       // the program's own settings, or its probes, say that it serves TLS
	TodayDeclared  Today = "declared"  // it is to be a port of TLS, and nobody has looked; Port.By says what says so
	TodayProxy     Today = "proxy"     // the proxy serves TLS
	TodayAny       Today = "any"       // the proxy serves TLS and plaintext
	TodayAsked     Today = "asked"     // the Service asks for the proxy, and no pod has it; Port.By says why
	TodayPlaintext Today = "plaintext" // no TLS
	TodayUnknown   Today = "unknown"   // nothing that was read is behind it
)

// Secure reports whether a port that speaks this serves TLS and no plaintext.
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
	// By is what Today follows from.
	By string `json:"by,omitempty"`
	// Beside is the port of the Service that serves TLS for the same port of the program;
	// 0 if there is none.
	Beside int32 `json:"beside,omitempty"`
	// Proxy is the targetPort to add, such as sc-tls-8080; empty if none is to be added. If
	// none can be, ProxyNot says why.
	Proxy    string `json:"proxy,omitempty"`
	ProxyNot string `json:"proxyNot,omitempty"`
	// Native is what the program would do with a certificate of its own; nil if nothing is
	// known of it.
	Native *Native `json:"native,omitempty"`
	// Notes are what to know before the proxy is used.
	Notes []string `json:"notes,omitempty"`

	annotate, rollOut bool     // what a port that is TodayAsked lacks
	without           []string // the workloads that get no proxy for it
}

// Native is what becomes of a program that serves TLS itself.
type Native struct {
	// Possible: the webhook would give each container what makes it serve TLS on this port.
	Possible bool `json:"possible"`
	// Detail says what it would get, or why it cannot.
	Detail string `json:"detail"`
	// Breaks are those that would fail, as far as is known.
	Breaks []string `json:"breaks,omitempty"`
}

// Speaks is what a reference says of the protocol.
type Speaks string

// What a reference can say.
const (
	SpeaksPlaintext Speaks = "plaintext"
	SpeaksTLS       Speaks = "tls"
	SpeaksUnknown   Speaks = "unknown" // without a scheme, or with one of both, such as postgres
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

// Stays reports whether such a caller goes on as it is beside the proxy: it calls the program
// inside its own pod.
func (v Via) Stays() bool { return v == ViaProbe || v == ViaLocalhost }

// Reference is somebody who refers to a Service, or calls its program.
type Reference struct {
	Via       Via    `json:"via"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Where is the place in the object, such as "container app, env WEB_URL".
	Where string `json:"where"`
	// Address is what is written there, without user and password.
	Address string `json:"address,omitempty"`
	// Port is the port of the Service; 0 if it is not said, or not one of them.
	Port   int32  `json:"port,omitempty"`
	Speaks Speaks `json:"speaks"`
	// Change are the annotations that have to change for it to speak TLS, as far as they are known.
	Change []string `json:"change,omitempty"`
	// UsedBy are the workloads that use the ConfigMap: KIND/NAME.
	UsedBy []string `json:"usedBy,omitempty"`
}

// MaxReferences is how many references of a Service are listed.
const MaxReferences = 100
