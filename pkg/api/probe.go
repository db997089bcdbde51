package api

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/starttls"
)

// AnnotationProbe on a Service maps ports to STARTTLS protocols: a comma-separated list of
// PORT=PROTOCOL, where PORT is the name or the number of a port of the Service.
const AnnotationProbe = Domain + "/probe"

// MaxProbes is the largest number of ports in AnnotationProbe, and maxProbe its largest size in
// bytes: for each a name of 15 characters, an equals sign, the longest protocol, a comma and two
// spaces.
const (
	MaxProbes = 16
	maxProbe  = MaxProbes * (15 + 1 + len(starttls.XMPPServer) + 3)
)

// ParseProbe returns the protocols of annotation AnnotationProbe by the index of the Service's
// port, or a *FieldError.
func ParseProbe(svc *corev1.Service) (map[int]starttls.Protocol, error) {
	value, ok := svc.Annotations[AnnotationProbe]
	if !ok {
		return nil, nil
	}
	if detail := cmp.Or(checkLength(value, maxProbe), checkCount(value, MaxProbes, "ports")); detail != "" {
		return nil, &FieldError{AnnotationProbe, value, detail}
	}
	said := map[int]starttls.Protocol{}
	for entry := range strings.SplitSeq(value, ",") {
		port, protocol, found := strings.Cut(strings.TrimSpace(entry), "=")
		p := starttls.Protocol(protocol)
		if !found || !p.Known() || port == "" {
			return nil, &FieldError{AnnotationProbe, entry, "must be PORT=PROTOCOL, with a PROTOCOL of " + strings.Join(starttls.Protocols(), ", ")}
		}
		i := slices.IndexFunc(svc.Spec.Ports, func(sp corev1.ServicePort) bool {
			return isTCP(sp) && (sp.Name == port || strconv.Itoa(int(sp.Port)) == port)
		})
		if i < 0 {
			return nil, &FieldError{AnnotationProbe, entry, "of PORT=PROTOCOL, PORT must be the name or the number of a TCP port of this Service"}
		}
		if before, twice := said[i]; twice && before != p {
			return nil, &FieldError{AnnotationProbe, entry, fmt.Sprintf("the same port is also %s: must be one of the two", before)}
		}
		said[i] = p
	}
	if detail := checkShape(AnnotationProbe, value); detail != "" {
		return nil, &FieldError{AnnotationProbe, value, detail}
	}
	return said, nil
}

// A ProbeTarget is a targetPort of a Service that is dialled to see which certificate it serves, and
// its STARTTLS protocol: zero if the Service does not specify one.
type ProbeTarget struct {
	Port     int32 // of the Service
	Target   intstr.IntOrString
	Protocol starttls.Protocol
	// Named: the Service marks the port as TLS. If it marks none, it may be any.
	Named bool
}

// ProbeTargets returns the [TLSTargets], and the targetPorts of the ports in annotation
// AnnotationProbe. An annotation that is not valid is ignored.
func ProbeTargets(svc *corev1.Service) []ProbeTarget {
	said, _ := ParseProbe(svc)
	secure := TLSTargets(svc)
	var out []ProbeTarget
	for i, p := range svc.Spec.Ports {
		target := TargetPort(p)
		asked, listed := said[i]
		if !isTCP(p) || !listed && !slices.Contains(secure, target) {
			continue
		}
		out = append(out, ProbeTarget{p.Port, target, portProtocol(p, asked), listed || ServesTLS(p)})
	}
	return out
}

// PortProtocols returns the STARTTLS protocol of each port of the Service; zero for a port of which the Service
// specifies none. An annotation that is not valid is ignored.
func PortProtocols(svc *corev1.Service) []starttls.Protocol {
	said, _ := ParseProbe(svc)
	out := make([]starttls.Protocol, len(svc.Spec.Ports))
	for i, p := range svc.Spec.Ports {
		if isTCP(p) {
			out[i] = portProtocol(p, said[i])
		}
	}
	return out
}

// portProtocol returns the protocol of a port: the one that annotation AnnotationProbe asks for, or else that of the
// port's appProtocol, of its name, or of the name of its targetPort. A proxy's port begins with TLS, and so does one
// whose words say so.
func portProtocol(p corev1.ServicePort, asked starttls.Protocol) starttls.Protocol {
	target := TargetPort(p)
	_, proxied := proxyTarget(target)
	switch {
	case proxied || asked == "" && WordsSayTLS(p):
		asked = starttls.TLS
	case asked == "" && p.AppProtocol != nil:
		asked = starttls.OfPort(*p.AppProtocol)
	}
	return cmp.Or(asked, starttls.OfPort(p.Name), starttls.OfPort(target.StrVal))
}
