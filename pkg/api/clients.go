package api

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnnotationClients on a Service lists the ServiceAccounts whose pods may call its TLS ports, as far as
// a proxy serves them. An entry is NAMESPACE/SERVICEACCOUNT, where each may be * for all, or ClientsAny,
// or ClientsWatch.
const AnnotationClients = Domain + "/clients"

// AnnotationAdmits on a pod has the clients that its proxy admits, by the name of the port:
// NAME=ENTRY,ENTRY;NAME=open. A port that it does not name admits nobody. The webhook writes it when the pod
// is created, and the rotator when AnnotationClients has changed. The kubelet writes it to a file of the
// proxy.
const AnnotationAdmits = Domain + "/admits"

// The entries of AnnotationClients that name no client.
const (
	// ClientsAny admits each client with an identity.
	ClientsAny = "any"
	// ClientsWatch admits all, and counts who would be refused without it.
	ClientsWatch = "watch"
)

// Bounds of AnnotationClients and AnnotationAdmits.
const (
	MaxClientEntries = 256
	maxClients       = 16 << 10 // bytes
	MaxAdmits        = 64 << 10 // bytes; the proxy refuses more
)

// Clients returns the entries of AnnotationClients, sorted and without duplicates, and whether the Service
// has the annotation. If its value is not valid, there is no entry, and clients is a *FieldError: nobody is
// admitted.
func Clients(svc *corev1.Service) (entries []string, guarded bool, err error) {
	value, guarded := svc.Annotations[AnnotationClients]
	if !guarded {
		return nil, false, nil
	}
	if detail := checkShape(AnnotationClients, value); detail != "" {
		return nil, true, &FieldError{AnnotationClients, value, detail}
	}
	entries = splitNames(value)
	slices.Sort(entries)
	return slices.Compact(entries), true, nil
}

// Guards reports whether the Service lists the clients of its pods: it has AnnotationClients and asks for a certificate.
func Guards(svc *corev1.Service) bool {
	_, lists, _ := Clients(svc)
	return lists && Asks(svc)
}

// MayCall reports whether the Service admits the pods of a ServiceAccount, if they have an identity.
func MayCall(svc *corev1.Service, namespace, account string) bool {
	entries, guarded, _ := Clients(svc)
	return !guarded || slices.ContainsFunc([]string{ClientsAny, ClientsWatch, "*/*", namespace + "/*", "*/" + account, namespace + "/" + account},
		func(entry string) bool { return slices.Contains(entries, entry) })
}

// admitsAll is the entry of AnnotationAdmits for a port that is open to all clients.
const admitsAll = "open"

// Admitted are the clients that a pod's proxy admits.
type Admitted struct {
	// Value is that of AnnotationAdmits.
	Value string
	// Full are the ports whose clients have no room in MaxAdmits: they admit nobody.
	Full []string
}

// Admits returns the clients of a new pod with the labels, whose proxy has the named ports. services are those of
// its namespace. A port of several Services with AnnotationClients admits the clients of each, and one that no
// Service guards is open.
func Admits(services []*corev1.Service, podLabels map[string]string, ports []string) Admitted {
	return admits(guards(services, podLabels), ports, func(string) (string, bool) { return admitsAll, true })
}

// AdmitsAfter is Admits for a pod whose AnnotationAdmits was as before. A port that no Service guards keeps what it
// had: a Service that is deleted, or no longer selects the pod, opens no port, and nor does an annotation that
// somebody has removed.
func AdmitsAfter(services []*corev1.Service, podLabels map[string]string, ports []string, before string) Admitted {
	earlier := ParseAdmits(before)
	return admits(guards(services, podLabels), ports, func(port string) (string, bool) { list, had := earlier[port]; return list, had })
}

// GuardHash returns a hash of what condition ConditionGuarded of the Service is about: its list, its selector and its ports.
func GuardHash(svc *corev1.Service) string {
	return hashOf([]any{svc.Annotations[AnnotationClients], svc.Spec.Selector, TCPTargets(svc), Needs(svc)})
}

// GuardedPorts returns those of the ports of a pod that a Service with AnnotationClients guards, sorted. services are
// those of its namespace.
func GuardedPorts(services []*corev1.Service, podLabels map[string]string, ports []string) (guarded []string) {
	byPort := guards(services, podLabels)
	for _, port := range slices.Sorted(slices.Values(ports)) {
		if _, is := byPort[port]; is {
			guarded = append(guarded, port)
		}
	}
	return guarded
}

// guards returns the entries of AnnotationClients of the Services that select a pod, by port.
func guards(services []*corev1.Service, podLabels map[string]string) map[string][]string {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: podLabels}}
	byPort := map[string][]string{}
	for _, svc := range services {
		entries, guarded, _ := Clients(svc) // doctor reports errors
		if !guarded || !Asks(svc) || !Selects(svc, pod) {
			continue
		}
		for _, target := range TLSTargets(svc) {
			byPort[target.StrVal] = append(byPort[target.StrVal], entries...)
		}
	}
	return byPort
}

// admits returns the clients of the ports. unguarded returns the list of a port that no Service guards, if it has one.
func admits(byPort map[string][]string, ports []string, unguarded func(port string) (list string, has bool)) (out Admitted) {
	var texts []string
	room := MaxAdmits - len(ports)*maxAdmitsPort
	for _, port := range slices.Sorted(slices.Values(ports)) {
		entries, guarded := byPort[port]
		slices.Sort(entries)
		list := strings.Join(slices.Compact(entries), ",")
		if !guarded {
			var has bool
			if list, has = unguarded(port); !has {
				continue
			}
		}
		if room -= len(list); room < 0 {
			room += len(list)
			list, out.Full = "", append(out.Full, port)
		}
		texts = append(texts, port+"="+list)
	}
	out.Value = strings.Join(texts, ";")
	return out
}

// AdmittedAt returns the entries of a port in a value of AnnotationAdmits. open: the port admits all.
func AdmittedAt(value, port string) (entries []string, open bool) {
	list := ParseAdmits(value, port)[port]
	if list = strings.TrimSpace(list); list == admitsAll {
		return nil, true
	}
	return splitNames(list), false
}

// ParseAdmits returns the text of the entries of a value of AnnotationAdmits by port: of these ports, or of all without any.
// A pod may have any value, so that whoever reads those of many pods says which ports.
func ParseAdmits(value string, ports ...string) map[string]string {
	out := map[string]string{}
	for part := range strings.SplitSeq(value, ";") {
		if port, list, ok := strings.Cut(part, "="); ok && (len(ports) == 0 || slices.Contains(ports, port)) {
			out[port] = list
		}
	}
	return out
}

// maxAdmitsPort is the length of the longest name of a port in AnnotationAdmits, with what separates it.
const maxAdmitsPort = len(proxyTLS + "12345678=;")
