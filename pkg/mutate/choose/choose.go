// Package choose decides which Secret a pod gets, and why: the second step of a decision about a pod
// (see package mutate). It is pure.
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
	"github.com/servingcert/servingcert/pkg/mutate/connect"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
	"github.com/servingcert/servingcert/pkg/mutate/sidecar"
	"github.com/servingcert/servingcert/pkg/mutate/volume"
	"github.com/servingcert/servingcert/pkg/pki"
)

// Known is what is known about a namespace when a pod is created in it.
type Known struct {
	// In is the name of the namespace; empty for that of the pod.
	In string
	// Services of the namespace, in any order. Those that request no Secret may be
	// missing.
	Services []*corev1.Service
	// Elsewhere returns a Service of another namespace that requests a certificate, or nil; nil if
	// none is known.
	Elsewhere func(namespace, name string) *corev1.Service
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

// Config is the webhook's configuration, the same for all namespaces.
type Config struct {
	// DefaultMode applies if no mode is set; empty for api.ModeArgs.
	DefaultMode api.Mode
	// UnknownPrograms applies to unknown programs; empty for api.UnknownProgramsFiles.
	UnknownPrograms api.UnknownPrograms
	// Programs are the known programs; nil for the built-in table.
	Programs *programs.Table
	// TrustBundle is true if pods get the CA bundle from ClusterTrustBundle
	// api.TrustBundleName instead of the ConfigMap of their namespace.
	TrustBundle bool
	// PublicRoots is true if the ConfigMap of a namespace with api.TrustEnv has the public roots
	// too.
	PublicRoots bool
	// ProxyImage is the image of the proxy; empty if pods get none.
	ProxyImage string
	// ProxyPullSecrets are the names of pull secrets for it in the namespaces of pods.
	ProxyPullSecrets []string
	// ProxyResources are the resources of a proxy if the pod's containers have requests or limits;
	// api.DefaultProxyResources applies to those that are not set.
	ProxyResources corev1.ResourceRequirements
	// ClusterDomain is the domain of Services; empty for cluster.local.
	ClusterDomain string
	// TrustDomain is that of the identities of pods, which the signer signs; empty if there are none. Proxies
	// that connect then show one, those that serve admit the clients that api.AnnotationClients lists, and
	// programs get one that ask by api.AnnotationIdentity.
	TrustDomain string
	// HostFiles is the directory on nodes that has a subdirectory with the certificate of each
	// static pod; empty if the pods are not static.
	HostFiles string
}

// By is what decided which Secret the pod gets.
type By string

// What can decide, in order of precedence.
const (
	ByPod        By = "pod"        // the pod names it
	ByService    By = "service"    // an annotated Service selects the pod
	ByConvention By = "convention" // it has the conventional name
	ByHost       By = "host"       // the pod is static: its node has a certificate of the pod's name
	ByNothing    By = ""           // the pod gets none
)

// Choice is the Secret of a pod, and the settings that apply with it.
type Choice struct {
	By     By
	Secret string // empty for ByNothing, and with PodKey
	// PodKey describes the key if the kubelet makes it, or is nil.
	PodKey *volume.PodKey
	// NoPodKeys is true if PodKey is set but the cluster does not support it.
	NoPodKeys bool
	// Host is the directory on the node of a static pod to which the certificate is written;
	// empty for others.
	Host string
	// Service is the name of the annotated Service that requests the Secret and selects
	// the pod, or of the preferred one if there are several; empty if none does.
	Service string
	// Requested is true if an annotated Service of the namespace requests the Secret, or PodKey is
	// set. Issued is true if also the signer issues it, so that the CA bundle verifies it.
	Requested, Issued bool
	// NotServing is true if annotated Services select the pod, but it gets no Secret,
	// because their traffic cannot reach it.
	NotServing bool
	// Ports are the targetPorts on which the pod's programs serve TLS for the Services that
	// select the pod, according to the Services.
	Ports []intstr.IntOrString
	// Notes are about the Services, such as one that the signer refuses.
	Notes []reasons.Note

	// Config is Known.Config.
	Config
	// ServiceSettings and NamespaceSettings are the settings of the Service and the namespace.
	ServiceSettings, NamespaceSettings api.Settings
	// Formats are the additional formats in the Secret.
	Formats formats.Set
	// Password is the password of the Formats; empty if none of them has one.
	Password string
	// MLDSA is true if a Service requests a post-quantum key for the Secret.
	MLDSA bool
	// Proxied are the ports for which the Services request a proxy.
	Proxied []sidecar.Port
	// Listed are the entries of [api.AnnotationConnect] that apply to the pod. Connect are the Services
	// of them whose calls go through the pod's proxy, and Left those that are left out.
	Listed  []api.Connect
	Connect []connect.Target
	Left    []connect.Left
	// Missing are the namespaces of Services that the pod lists and that are not known, each once; Doubtful those of
	// Services that it lists and that are left out, but may have been corrected since.
	Missing, Doubtful []string
	// Admits is the value of api.AnnotationAdmits; empty if the proxy admits all clients.
	Admits string
}

// origin returns where the pair comes from.
func (c Choice) origin() origin { return origin{c.Secret, c.PodKey != nil} }

// Pair returns where the pair comes from, for a volume.
func (c Choice) Pair() volume.Pair {
	return volume.Pair{Secret: c.Secret, PodKey: c.PodKey, Host: c.Host}
}

// FromServices reports whether the choice is based on a known Service. A Service that was
// created since then is younger and cannot change it, unless both were created in the same
// second and the new one is preferred: then the rotator reports the pod as missed.
func (c Choice) FromServices() bool {
	return c.By == ByService || c.By == ByPod && c.Requested
}

// Secret returns the Secret of the pod, by the first rule that applies:
//
//   - the Secret that the pod names;
//   - the Secret, or the pod key, that an annotated Service requests which selects the pod and
//     whose traffic can reach it; if there are several, the preferred one (see preferences);
//   - the conventional Secret, if it exists, no annotated Service selects the pod, the pod
//     declares a port and does not run to its end ([api.OneShot]), and no Service requests
//     that Secret, which is then only for the pods of that Service.
//
// A static pod always gets one: by default the certificate of its own name.
//
// It also chooses the Services to which the pod's proxy connects, and the clients that it admits.
func Secret(pod *corev1.Pod, request api.PodRequest, known Known) Choice {
	bare := sidecar.Without(pod)
	c := secret(bare, request, known)
	c.connect(bare, request, known, sidecar.Reserved(pod))
	c.guard(bare, known.Services)
	return c
}

func secret(pod *corev1.Pod, request api.PodRequest, known Known) Choice {
	services, reach := viewsOf(known.Services, pod), api.ReachOf(pod)
	selecting := selectingServices(services)
	serving := servedBy(reach, selecting)
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
	case known.ConventionalSecret && api.DeclaresPort(pod) && !api.OneShot(pod):
		if some, _ := requested(services, origin{secret: api.ConventionalSecretName}); !some {
			c.By, c.Secret = ByConvention, api.ConventionalSecretName
		}
	}
	c.Notes = serviceNotes(pod, reach, services, selecting, c)
	c.NamespaceSettings = c.settingsOf("namespace", known.Namespace)
	if c.By == ByNothing {
		return c
	}
	some, external := requested(services, c.origin())
	c.Requested = c.PodKey != nil || some
	c.Issued = c.Requested && !external
	c.addServices(selecting, reach)
	if known.HostFiles != "" { // the directory has only the pair and the bundle
		c.Host, c.NoPodKeys = path.Join(known.HostFiles, pod.Name), false
		return c
	}
	c.Formats, c.Password = c.formatsOf(services)
	c.MLDSA = slices.ContainsFunc(services, func(s service) bool {
		return s.from == c.origin() && pki.KeyAlgorithm(s.Annotations[api.AnnotationKeyAlgorithm]).IsMLDSA()
	})
	return c
}

// formatsOf returns the additional formats: those that a kubelet makes, or that any Service requests
// in the Secret; and the password, from the oldest of these Services.
func (c *Choice) formatsOf(services []service) (held formats.Set, password string) {
	if c.PodKey != nil {
		return formats.CredentialBundles(), ""
	}
	var oldest *corev1.Service
	for _, s := range services {
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

// note adds a note once.
func (c *Choice) note(n reasons.Note) {
	if !slices.ContainsFunc(c.Notes, func(have reasons.Note) bool { return have.Reason == n.Reason && have.Detail == n.Detail }) {
		c.Notes = append(c.Notes, n)
	}
}

// settingsOf returns the settings in the annotations of a Service or the namespace, and adds a
// note for each that is not valid.
func (c *Choice) settingsOf(whose string, annotations map[string]string) api.Settings {
	settings, errs := api.ParseSettings(annotations)
	for _, err := range errs {
		c.Notes = append(c.Notes, reasons.Note{Reason: reasons.BadSetting, Detail: whose + ": " + err.Error()})
	}
	return settings
}
