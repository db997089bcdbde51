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
// NAME=ENTRY,ENTRY;NAME=ENTRY. A port that it does not name is open to all. The webhook writes it when
// the pod is created, and the rotator when AnnotationClients has changed. The kubelet writes it to a
// file of the proxy.
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

// Admitted are the clients that a pod's proxy admits.
type Admitted struct {
	// Value is that of AnnotationAdmits; empty if each port is open to all.
	Value string
	// Full are the ports whose clients have no room in MaxAdmits: they admit nobody.
	Full []string
	// Unknown are the ports of no Service that selects the pod.
	Unknown []string
}

// Admits returns the clients of a pod with the labels, whose proxy has the named ports. services are those of
// its namespace. A port of several Services with AnnotationClients admits the clients of each, and a Service
// without it opens no port that another one guards.
func Admits(services []*corev1.Service, podLabels map[string]string, ports []string) (out Admitted) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: podLabels}}
	known, byPort := map[string]bool{}, map[string][]string{}
	for _, svc := range services {
		if !Asks(svc) || !Selects(svc, pod) {
			continue
		}
		entries, guarded, _ := Clients(svc) // doctor reports errors
		for _, target := range TLSTargets(svc) {
			known[target.StrVal] = true
			if guarded {
				byPort[target.StrVal] = append(byPort[target.StrVal], entries...)
			}
		}
	}
	var texts []string
	room := MaxAdmits - len(ports)*maxAdmitsPort
	for _, port := range slices.Sorted(slices.Values(ports)) {
		entries, guarded := byPort[port]
		if !known[port] {
			out.Unknown = append(out.Unknown, port)
		}
		if !guarded {
			continue
		}
		slices.Sort(entries)
		list := strings.Join(slices.Compact(entries), ",")
		if room -= len(list); room < 0 {
			room += len(list)
			list, out.Full = "", append(out.Full, port)
		}
		texts = append(texts, port+"="+list)
	}
	out.Value = strings.Join(texts, ";")
	return out
}

// maxAdmitsPort is the length of the longest name of a port in AnnotationAdmits, with what separates it.
const maxAdmitsPort = len(proxyTLS + "12345678=;")
