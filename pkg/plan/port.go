package plan

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
)

// behind is a workload behind a port of a Service, and the port of its containers.
type behind struct {
	Workload
	port int32
}

// leadsTo returns the workloads that the port leads to.
func leadsTo(port intstr.IntOrString, workloads []Workload) []behind {
	var out []behind
	for _, w := range workloads {
		if port.Type == intstr.Int {
			out = append(out, behind{w, port.IntVal})
			continue
		}
		for _, c := range api.RunningContainers(w.Pod) {
			if n, ok := declared(c.Container, port.StrVal); ok {
				out = append(out, behind{w, n})
				break
			}
		}
	}
	return out
}

// port evaluates one port of a Service. inside are the calls to it from within its own pods.
func (b *Builder) port(svc *corev1.Service, p corev1.ServicePort, workloads []Workload) (out Port, inside []Reference) {
	to := api.TargetPort(p)
	out = Port{Name: p.Name, Port: p.Port, Target: to.String(), Protocol: string(cmp.Or(p.Protocol, corev1.ProtocolTCP)), Today: TodayUnknown}
	if asked, ok := api.ParseProxyPort(to.StrVal); ok && to.Type == intstr.String {
		b.proxyPort(svc, p, asked, workloads, &out)
		return out, nil
	}
	servers := leadsTo(to, workloads)
	switch {
	case out.Protocol != string(corev1.ProtocolTCP):
		out.Today, out.ProxyNot = TodayPlaintext, "its protocol is "+out.Protocol+", and only TCP is supported"
		return out, nil
	case len(workloads) == 0:
		out.ProxyNot = noWorkload(svc, workloads)
		return out, nil
	case len(servers) == 0:
		out.ProxyNot = "no container declares port " + to.StrVal
		return out, nil
	}
	for _, w := range servers {
		inside = append(inside, w.insideCalls(w.port)...)
	}
	out.ProxyNot = b.leftAlone(svc.Namespace)
	if out.ProxyNot == "" && api.HasOtherPodKeys(svc) {
		out.ProxyNot = fmt.Sprintf("annotations %s: %s and %s: %s: a proxy gets no certificate of another signer", api.AnnotationIssuer, api.IssuerExternal, api.AnnotationKeySource, api.KeySourcePod)
	}
	if out.ProxyNot == "" {
		out.Native = b.native(svc, p, servers, &out)
	}
	out.probed(inside)
	if out.Today == TodayUnknown {
		out.Today, out.By = declaredToday(p, servers)
	}
	if out.Today == TodayPlaintext && out.ProxyNot == "" {
		out.proxy(svc, p, servers)
	}
	if out.Proxy != "" {
		b.keepProposal(svc, p, servers, &out)
	}
	if out.Proxy != "" {
		out.Notes = append(out.Notes, b.quotas(svc.Namespace)...)
		for _, w := range servers {
			out.block(b.blocked(w.Workload))
		}
	}
	return out, inside
}

// probed fills in the protocol of the kubelet's probes, which is better evidence than settings and names.
func (out *Port) probed(inside []Reference) {
	for _, r := range inside {
		switch {
		case r.Via != ViaProbe || out.Today == TodayTLS:
		case r.Speaks == SpeaksTLS:
			out.Today, out.By = TodayOwn, r.Where+" is HTTPS"
			return
		case r.Speaks == SpeaksPlaintext:
			out.Today, out.By = TodayPlaintext, r.Where+" is not HTTPS"
		}
	}
}

// declaredToday returns the protocol of a port with an unknown program, from its name and number.
func declaredToday(p corev1.ServicePort, servers []behind) (Today, string) {
	names := []string{p.Name}
	if p.AppProtocol != nil {
		names = append(names, *p.AppProtocol)
	}
	for _, name := range names {
		if api.PortSaysTLS(name, 0) {
			return TodayDeclared, "its name or appProtocol is " + name
		}
	}
	if api.PortSaysTLS("", p.Port) && servers[0].port != 80 && servers[0].port != 8080 {
		return TodayDeclared, fmt.Sprintf("its number is %d", p.Port)
	}
	return TodayPlaintext, ""
}

// proxy fills in the targetPort that requests the proxy, or why that is impossible.
func (out *Port) proxy(svc *corev1.Service, p corev1.ServicePort, servers []behind) {
	upstream := fmt.Sprint(servers[0].port)
	if p.Port == portDNS || servers[0].port == portDNS {
		out.ProxyNot = "it is a DNS port, and DNS clients use plaintext"
		return
	}
	for _, w := range servers {
		if out.ProxyNot = exempt(w.Workload); out.ProxyNot != "" {
			return
		}
		if w.port != servers[0].port {
			upstream = p.TargetPort.StrVal
		}
	}
	asked := api.ProxyPort{Upstream: upstream}
	if _, ok := api.ParseProxyPort(asked.Name()); !ok {
		out.ProxyNot = fmt.Sprintf("port %q has different numbers in the workloads, and its name is too long for sc-tls-PORT: use a name of at most 8 characters", upstream)
		return
	}
	out.Proxy = asked.Name()
	if protocol := inProtocol[servers[0].port]; protocol != "" {
		out.Notes = append(out.Notes, protocol+" negotiates TLS within the protocol: only clients that start with TLS can use the new port")
	}
	if api.IsHeadless(svc) {
		out.Notes = append(out.Notes, "the Service is headless: clients that resolve its name connect to the pods directly, at the port in its EndpointSlice")
	}
	if svc.Spec.Type == corev1.ServiceTypeNodePort || svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
		out.Notes = append(out.Notes, "the Service has type "+string(svc.Spec.Type)+": the new port is reachable from outside the cluster too")
	}
	if names := checks(svc); len(names) > 0 {
		out.Notes = append(out.Notes, "before you remove plaintext, check these annotations: "+strings.Join(names, ", "))
	}
}

// block adds a note about NetworkPolicies, if it is not empty.
func (out *Port) block(policies string) {
	if policies != "" {
		out.Notes = appendNew(out.Notes, policies)
	}
}

// portDNS is the port of RFC 1035. The resolvers of pods and nodes use plaintext DNS.
const portDNS = 53

// inProtocol are protocols that negotiate TLS, by their usual port.
var inProtocol = map[int32]string{25: "SMTP", 587: "SMTP", 21: "FTP", 110: "POP3", 143: "IMAP", 389: "LDAP", 3306: "MySQL", 4222: "NATS"}

// asking returns a copy of the Service that requests a certificate and has only these ports.
func asking(svc *corev1.Service, ports ...corev1.ServicePort) *corev1.Service {
	out := svc.DeepCopy()
	out.Spec.Ports = ports
	if !api.Asks(out) {
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[api.AnnotationSecretName] = svc.Name + "-tls"
	}
	return out
}

// native returns what the webhook would do for the containers behind the port if the Service had
// no other port. It fills in Today if the result determines it.
func (b *Builder) native(svc *corev1.Service, p corev1.ServicePort, servers []behind, out *Port) *Native {
	in, _ := b.optedIn(svc.Namespace)
	asks := in && api.Asks(svc) && !besideProxy(svc, p, servers)
	hypothetical := b.known(svc.Namespace, asking(svc, p))
	possible, details, breaks := true, []string{}, []string{}
	for _, w := range servers {
		_, report, err := mutate.Mutate(w.Pod, hypothetical)
		if err != nil {
			return &Native{Detail: w.String() + ": " + err.Error()}
		}
		v := verdictOf(report)
		possible = possible && v.serves
		switch {
		case v.itself && out.Today == TodayUnknown:
			out.Today, out.By = TodayDeclared, w.String()+" serves TLS with a certificate of its own by default"
		case v.own == "" || turnedOff(w.Pod, v.own):
		case !saysTLS.MatchString(v.own):
			out.Notes = appendNew(out.Notes, w.String()+" sets "+v.own+", so it may already serve TLS: check its port")
		case out.Today == TodayUnknown: // on this port or on another one
			out.Today, out.By = TodayDeclared, w.String()+" sets "+v.own
		}
		for _, d := range v.details {
			details = appendNew(details, w.String()+": "+d)
		}
		for _, d := range v.breaks {
			breaks = appendNew(breaks, w.String()+": "+d)
		}
	}
	n := &Native{Possible: possible, Detail: strings.Join(details, "; "), Breaks: breaks}
	if possible && asks && out.Today == TodayUnknown {
		out.Today, out.By = TodayTLS, n.Detail
	}
	return n
}

// besideProxy reports whether the program behind the port gets no certificate, because the Service
// requests a proxy in front of it and neither Service nor pod requests the program's flags.
func besideProxy(svc *corev1.Service, p corev1.ServicePort, servers []behind) bool {
	asksFlags := func(annotations map[string]string) bool {
		settings, _ := api.ParseSettings(annotations) // doctor and analyze report errors
		return settings.Mode == api.ModeArgs || settings.NamesFlags()
	}
	if asksFlags(svc.Annotations) || slices.ContainsFunc(servers, func(w behind) bool { return asksFlags(w.Pod.Annotations) }) {
		return false
	}
	return slices.ContainsFunc(svc.Spec.Ports, func(other corev1.ServicePort) bool {
		asked, ok := api.ParseProxyPort(other.TargetPort.StrVal)
		return ok && (asked.Upstream == fmt.Sprint(servers[0].port) || asked.Upstream == p.TargetPort.StrVal)
	})
}

// turnedOff reports whether an option or variable that the webhook found has a value that disables it: as --NAME=VALUE
// or --NAME VALUE of a container, or as a variable.
func turnedOff(pod *corev1.Pod, name string) bool {
	bare := strings.TrimLeft(name, "-")
	for _, word := range []string{"skip", "no", "disable"} {
		if strings.HasPrefix(strings.ToLower(bare), word+"-") {
			return true
		}
	}
	for _, c := range api.RunningContainers(pod) {
		for _, e := range c.Env {
			if e.Name == name && e.ValueFrom == nil {
				return off(e.Value)
			}
		}
		words := slices.Concat(c.Command, c.Args)
		for i, word := range words {
			option, value, has := strings.Cut(strings.TrimLeft(word, "-"), "=")
			if option != bare || !strings.HasPrefix(word, "-") {
				continue
			}
			if !has && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
				value, has = words[i+1], true
			}
			return has && off(value)
		}
	}
	return false
}

// off reports whether a value disables an option.
func off(value string) bool {
	return slices.Contains([]string{"", "no", "false", "0", "off", "none", "disabled", "disable"}, strings.ToLower(strings.Trim(value, `"'`)))
}

// saysTLS matches names of options and variables that are about TLS. Other settings that make the webhook add no flags,
// such as redis-server's --port or a configuration file, may be unrelated to TLS.
var saysTLS = regexp.MustCompile(`(?i)tls|ssl|https|cert|secure`)

func appendNew(all []string, s string) []string {
	const most = 5
	if slices.Contains(all, s) || len(all) == most {
		return all
	}
	return append(all, s)
}

// verdict is the part of a webhook report that concerns a port.
type verdict struct {
	serves          bool
	own             string // a flag or variable that may already configure TLS
	itself          bool   // the program serves TLS with a certificate of its own by default
	details, breaks []string
}

// refusals are the reasons why a container does not get the flags or variables for TLS.
var refusals = []reasons.Reason{
	reasons.ProgramNeedsMore, reasons.OwnCertificate, reasons.OlderVersion, reasons.UnknownProgram, reasons.NoArgs, reasons.ShellWrapper, reasons.OtherPort,
	reasons.AmbiguousContainer, reasons.UnknownContainer, reasons.MountPathTaken, reasons.MountPathReadOnly, reasons.MountPathCovers, reasons.FlagAlreadySet, reasons.PlaintextCall,
}

// callers are the reasons that name callers that may fail.
var callers = []reasons.Reason{reasons.PlaintextCall, reasons.ProgramNote, reasons.GRPCProbe, reasons.TCPProbe, reasons.HTTPProbe}

func verdictOf(r mutate.Report) verdict {
	var v verdict
	for _, c := range r.Containers {
		parts := strings.Split(c.Parts(), ",")
		if slices.Contains(parts, "flags") || slices.Contains(parts, "variables") {
			v.serves = true
			v.details = append(v.details, "container "+c.Name+" gets "+c.Parts())
		}
	}
	for _, n := range r.Notes {
		text := strings.Join(strings.Fields(cmp.Or(n.Detail, n.String())), " ")
		if len(n.Containers) > 0 && n.Detail != "" {
			text = "container " + strings.Join(n.Containers, ", ") + ": " + text
		}
		switch n.Reason {
		case reasons.FlagAlreadySet:
			v.own = api.Shorten(n.Detail, maxAddress)
		case reasons.OwnCertificate:
			v.itself = true
		case reasons.OtherPort:
			v.serves = false
		}
		if slices.Contains(refusals, n.Reason) {
			v.details = append(v.details, string(n.Reason)+": "+api.Shorten(text, maxDetail))
		}
		if slices.Contains(callers, n.Reason) {
			v.breaks = append(v.breaks, string(n.Reason)+": "+api.Shorten(text, maxDetail))
		}
	}
	if len(v.details) == 0 {
		v.details = []string{string(r.Reason) + ": " + r.Explain()}
	}
	return v
}

// maxDetail is the number of characters of a reason that are shown.
const maxDetail = 240
