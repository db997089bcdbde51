// Package choose decides which Secret a pod gets, and why: the first of the three steps of a decision
// about a pod. It is pure.
//
//	choice := choose.Secret(pod, request, choose.Known{Services: services})
//	fmt.Println(choice.By, choice.Secret, choice.Notes)
package choose

import (
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
	"github.com/servingcert/servingcert/pkg/mutate/rules"
	"github.com/servingcert/servingcert/pkg/mutate/sidecar"
	"github.com/servingcert/servingcert/pkg/mutate/volume"
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
	// NoPodKeys is true if the cluster does not serve PodCertificateRequests, so that no
	// kubelet makes a key.
	NoPodKeys bool
	Config
}

// Config is what the webhook is told, the same for all namespaces.
type Config struct {
	// DefaultMode holds where nobody says a mode; empty for api.ModeArgs.
	DefaultMode api.Mode
	// UnknownPrograms holds for programs that are not known; empty for
	// api.UnknownProgramsFiles.
	UnknownPrograms api.UnknownPrograms
	// Programs are the programs that are known; nil for those that are built in.
	Programs *programs.Table
	// TrustBundle is true if pods get the CA bundle from ClusterTrustBundle
	// api.TrustBundleName, and not from the ConfigMap of their namespace.
	TrustBundle bool
	// PublicRoots is true if the ConfigMap of a namespace that says api.TrustEnv has the public
	// roots too.
	PublicRoots bool
	// ProxyImage is the image of the proxy; empty if pods get none.
	ProxyImage string
	// ProxyPullSecrets are the names of Secrets in the namespaces of pods with which it is pulled.
	ProxyPullSecrets []string
	// ProxyResources are what a proxy gets where the pod's containers have requests or limits;
	// what is not in it is that of api.DefaultProxyResources.
	ProxyResources corev1.ResourceRequirements
	// HostFiles is the directory on nodes where static pods have their certificates, each below
	// its name; empty if the pods are not static.
	HostFiles string
}

// By says what decided which Secret the pod gets.
type By string

// What can decide, in order of precedence.
const (
	ByPod        By = "pod"        // the pod names it
	ByService    By = "service"    // an annotated Service selects the pod
	ByConvention By = "convention" // it has the conventional name
	ByHost       By = "host"       // the pod is static: what is on its node has its name
	ByNothing    By = ""           // the pod gets none
)

// Choice is the Secret of a pod, and what follows from what decided it.
type Choice struct {
	By     By
	Secret string // empty for ByNothing, and with PodKey
	// PodKey is what is known of the key if the kubelet makes it, or nil.
	PodKey *volume.PodKey
	// NoPodKeys is true if PodKey is set and the cluster has no such kubelets.
	NoPodKeys bool
	// Host is the directory on the node of a static pod to which the certificate is written;
	// empty for others.
	Host string
	// Service is the name of the annotated Service that asks for the Secret and
	// selects the pod, or of the preferred of several; empty if none does.
	Service string
	// Issued is true if an annotated Service of the namespace asks for the Secret, so
	// the signer writes it and the CA bundle verifies it.
	Issued bool
	// NotServing is true if annotated Services select the pod, but it gets no Secret,
	// because their traffic cannot reach it.
	NotServing bool
	// Ports are the targetPorts on which the pod's programs serve TLS for the Services that
	// select the pod, as far as the Services show it.
	Ports []intstr.IntOrString
	// Notes are about the Services, such as one that the signer refuses.
	Notes []rules.Note

	// Config is Known.Config.
	Config
	// ServiceSettings and NamespaceSettings are what the Service and the namespace say.
	ServiceSettings, NamespaceSettings api.Settings
	// Formats are what the Secret has beside the pair.
	Formats formats.Set
	// Password is that of the Formats; empty if none of them has one.
	Password string
	// Proxied are the ports for which the Services ask for a proxy.
	Proxied []sidecar.Port
}

// origin is where the pair comes from.
func (c Choice) origin() origin { return origin{c.Secret, c.PodKey != nil} }

// Pair is where the pair comes from.
func (c Choice) Pair() volume.Pair {
	return volume.Pair{Secret: c.Secret, PodKey: c.PodKey, Host: c.Host}
}

// FromServices reports whether the choice rests on a known Service. A Service that was
// created since is younger and could not change it, unless both were created in the same
// second and it is preferred: then the rotator finds that the pod was missed.
func (c Choice) FromServices() bool {
	return c.By == ByService || c.By == ByPod && c.Issued
}

// Secret returns the Secret of the pod: the one that it names; or else the one that the
// annotated Service asks for that selects it and whose traffic can reach it, of several
// the preferred (see preferences), or a key of its own if that Service asks for those; or
// else, if no annotated Service selects it, the conventional Secret, if it exists, the pod
// declares a port, it is not there to run to its end ([api.OneShot]), and no Service asks
// for that Secret, which would be for the pods of that Service only. A static pod gets one in any
// case: if nothing else decides, that of its own name.
func Secret(pod *corev1.Pod, request api.PodRequest, known Known) Choice {
	pod = sidecar.Without(pod)
	asking := askingServices(known.Services)
	selecting := selectingServices(asking, pod)
	serving := servedBy(pod, selecting)
	c := Choice{Config: known.Config}
	switch {
	case request.SecretName != "":
		c.By, c.Secret = ByPod, request.SecretName
	case known.HostFiles != "" && len(serving) == 0:
		c.By, c.Secret = ByHost, pod.Name+"-tls"
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
	c.NamespaceSettings = c.settingsOf("namespace", known.Namespace)
	if c.By == ByNothing {
		return c
	}
	c.Issued = c.PodKey != nil || issued(asking, c.Secret)
	c.addServices(selecting, pod)
	if known.HostFiles != "" { // which has the pair and the bundle, and nothing else
		c.Host, c.NoPodKeys = path.Join(known.HostFiles, pod.Name), false
		return c
	}
	c.Formats, c.Password = c.formatsOf(asking)
	return c
}

// formatsOf returns the formats that the pair has beside it: those that a kubelet makes, or that
// any Service asks for in the Secret; and the password, of several Services' that of the oldest.
func (c *Choice) formatsOf(asking []asker) (held formats.Set, password string) {
	if c.PodKey != nil {
		return formats.CredentialBundles(), ""
	}
	var oldest *corev1.Service
	for _, s := range asking {
		if s.from == c.origin() {
			asked, _ := api.FormatsOf(s.Service)
			held |= asked
			if p := api.PasswordOf(s.Service); p != "" && (oldest == nil || api.OlderFirst(s.Service, oldest) < 0) {
				oldest, password = s.Service, p
			}
		}
	}
	return held, password
}

// addServices adds what the Services that ask for a certificate and select the pod say of its
// containers.
func (c *Choice) addServices(selecting []asker, pod *corev1.Pod) {
	for _, s := range selecting {
		if s.from != c.origin() {
			c.noteOtherProxies(s.Service, pod)
			continue
		}
		if c.Service == "" {
			c.Service = s.Name
			c.ServiceSettings = c.settingsOf("Service "+s.Name, s.Annotations)
		}
		c.addPorts(s.Service, pod)
	}
}

// addPorts adds the Service's ports that serve TLS: those for which the pod gets a proxy, and
// those on which a program of the pod is to serve it. pod is without its proxy.
func (c *Choice) addPorts(svc *corev1.Service, pod *corev1.Pod) {
	targets := sidecar.TargetsOf(svc, pod)
	for _, name := range targets.Declared {
		c.note(rules.Note{Reason: rules.ProxyPortDeclared, Detail: name})
	}
	for _, target := range targets.Own {
		if !slices.Contains(c.Ports, target) {
			c.Ports = append(c.Ports, target)
		}
	}
	for _, p := range targets.Asked {
		i := slices.IndexFunc(c.Proxied, func(have sidecar.Port) bool { return have.ProxyPort == p.ProxyPort })
		if i < 0 {
			c.Proxied = append(c.Proxied, p)
		} else {
			c.Proxied[i].H2 = c.Proxied[i].H2 || p.H2
		}
	}
}

// noteOtherProxies notes the Service's ports that ask for a proxy with another Secret than the
// pod's.
func (c *Choice) noteOtherProxies(svc *corev1.Service, pod *corev1.Pod) {
	var names []string
	for _, p := range sidecar.TargetsOf(svc, pod).Asked {
		names = append(names, p.Name())
	}
	if len(names) > 0 {
		c.note(rules.Note{Reason: rules.ProxyOtherSecret, Detail: "Service " + svc.Name + ", " + originOf(svc).String() + ": " + rules.List(names)})
	}
}

// note adds a note once.
func (c *Choice) note(n rules.Note) {
	if !slices.ContainsFunc(c.Notes, func(have rules.Note) bool { return have.Reason == n.Reason && have.Detail == n.Detail }) {
		c.Notes = append(c.Notes, n)
	}
}

// settingsOf returns the settings that the annotations of a Service or of the namespace say,
// and adds a note for each that is wrong.
func (c *Choice) settingsOf(whose string, annotations map[string]string) api.Settings {
	settings, errs := api.ParseSettings(annotations)
	for _, err := range errs {
		c.Notes = append(c.Notes, rules.Note{Reason: rules.BadSetting, Detail: whose + ": " + err.Error()})
	}
	return settings
}
