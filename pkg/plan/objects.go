package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/preview"
)

// Object is an object of any kind, such as an Ingress.
type Object struct {
	APIVersion, Kind, Namespace, Name string
	Content                           map[string]any
}

// reader finds the references of one kind of object.
type reader func(*Builder, Object)

// readers are the kinds, with their API groups, whose objects refer to Services by name.
var readers = map[string]reader{
	"networking.k8s.io Ingress":           (*Builder).ingress,
	"networking.k8s.io NetworkPolicy":     (*Builder).networkPolicy,
	"route.openshift.io Route":            (*Builder).openShiftRoute,
	"gateway.networking.k8s.io HTTPRoute": (*Builder).gatewayRoute, "gateway.networking.k8s.io GRPCRoute": (*Builder).gatewayRoute,
	"gateway.networking.k8s.io TCPRoute": (*Builder).gatewayRoute, "gateway.networking.k8s.io TLSRoute": (*Builder).gatewayRoute,
	"gateway.networking.k8s.io BackendTLSPolicy": (*Builder).backendTLSPolicy,
	"monitoring.coreos.com ServiceMonitor":       (*Builder).serviceMonitor,
	"apiregistration.k8s.io APIService":          (*Builder).apiService,
	"apiextensions.k8s.io CustomResourceDefinition": func(b *Builder, o Object) {
		b.webhook(o, "conversion webhook", at(o.Content, "spec", "conversion", "webhook", "clientConfig", "service"))
	},
	"admissionregistration.k8s.io ValidatingWebhookConfiguration": (*Builder).webhooks,
	"admissionregistration.k8s.io MutatingWebhookConfiguration":   (*Builder).webhooks,
}

// AddObject records the references of an object to Services. Objects of other kinds than those of
// readers are ignored; workloads and ConfigMaps have methods of their own.
func (b *Builder) AddObject(o Object) {
	group, _, _ := strings.Cut(o.APIVersion, "/")
	if read := readers[group+" "+o.Kind]; read != nil {
		read(b, o)
	}
}

func (o Object) reference(via Via, where string, speaks Speaks) Reference {
	r := Reference{Via: via, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Where: where, Speaks: speaks}
	if via == ViaAPIService || via == ViaWebhook { // cluster-scoped
		r.Namespace = ""
	}
	return r
}

// addTo records a reference to a Service's port: a number, a name, or nil for its only port.
func (b *Builder) addTo(r Reference, namespace, name string, port any) {
	e := b.index.services[key{namespace, name}]
	if e == nil {
		return
	}
	if text := fmt.Sprint(port); port == nil {
		r.Port = e.only()
	} else {
		r.Port = e.portOf(port)
		r.Address = name + ":" + text
	}
	e.add(r)
}

func (b *Builder) ingress(o Object) {
	add := func(backend map[string]any, where string) {
		service := at(backend, "service")
		name := str(service, "name")
		port := at(service, "port")
		number, ok := port["number"]
		if !ok {
			number = port["name"]
		}
		e := b.index.services[key{o.Namespace, name}]
		if e == nil {
			return
		}
		r := o.reference(ViaIngress, where, SpeaksPlaintext)
		r.Speaks, r.Change = o.backendSpeaks(served{e.svc, e.portOf(number)})
		b.addTo(r, o.Namespace, name, number)
	}
	add(at(o.Content, "spec", "defaultBackend"), "defaultBackend")
	for _, rule := range list(at(o.Content, "spec"), "rules") {
		for _, p := range list(at(rule, "http"), "paths") {
			add(at(p, "backend"), "rule "+str(rule, "host")+cmp.Or(str(p, "path"), "/"))
		}
	}
}

func (b *Builder) openShiftRoute(o Object) {
	speaks := SpeaksPlaintext
	if t := str(at(o.Content, "spec", "tls"), "termination"); t == "reencrypt" || t == "passthrough" {
		speaks = SpeaksTLS
	}
	r := o.reference(ViaRoute, "spec.to", speaks)
	name, port := str(at(o.Content, "spec", "to"), "name"), at(o.Content, "spec", "port")["targetPort"]
	if _, named := port.(string); !named { // a name is a port of the Service, a number is a port of the pods
		if e := b.index.services[key{o.Namespace, name}]; e != nil {
			port = targeting(e.svc, fmt.Sprint(port))
		}
	}
	b.addTo(r, o.Namespace, name, port)
}

func (b *Builder) gatewayRoute(o Object) {
	speaks := SpeaksPlaintext
	switch o.Kind {
	case "TLSRoute":
		speaks = SpeaksTLS
	case "TCPRoute":
		speaks = SpeaksUnknown
	}
	add := func(ref map[string]any, where string) {
		if kind := str(ref, "kind"); kind == "" || kind == "Service" {
			b.addTo(o.reference(ViaRoute, where, speaks), cmp.Or(str(ref, "namespace"), o.Namespace), str(ref, "name"), ref["port"])
		}
	}
	for i, rule := range list(at(o.Content, "spec"), "rules") {
		where := fmt.Sprintf("rules[%d]", i)
		for _, ref := range list(rule, "backendRefs") {
			add(ref, where)
		}
		for _, f := range list(rule, "filters") {
			add(at(f, "requestMirror", "backendRef"), where+", mirror")
		}
	}
}

// backendTLSPolicy records the Services for which gateways use TLS.
func (b *Builder) backendTLSPolicy(o Object) {
	for _, ref := range list(at(o.Content, "spec"), "targetRefs") {
		id := o.Namespace + "/" + str(ref, "name")
		if section := str(ref, "sectionName"); section != "" {
			id += ":" + section
		}
		b.secured[id] = true
	}
}

// serviceMonitor adds the endpoints of the Services that a ServiceMonitor selects.
func (b *Builder) serviceMonitor(o Object) {
	selector := &metav1.LabelSelector{}
	if preview.Convert(at(o.Content, "spec", "selector"), selector) != nil {
		return // the Prometheus operator rejects it too
	}
	selects, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return
	}
	namespaces := []string{o.Namespace}
	from := at(o.Content, "spec", "namespaceSelector")
	switch names, _ := from["matchNames"].([]any); {
	case from["any"] == true:
		namespaces = slices.Sorted(maps.Keys(b.index.byNamespace))
	case len(names) > 0:
		namespaces = nil
		for _, n := range names {
			namespaces = append(namespaces, fmt.Sprint(n))
		}
	}
	for _, namespace := range namespaces {
		for _, e := range b.index.byNamespace[namespace] {
			if selects.Matches(labels.Set(e.svc.Labels)) {
				b.scraped(o, e.svc)
			}
		}
	}
}

// scraped adds the endpoints of a ServiceMonitor that selects the Service.
func (b *Builder) scraped(o Object, svc *corev1.Service) {
	for i, endpoint := range list(at(o.Content, "spec"), "endpoints") {
		speaks := SpeaksPlaintext
		if strings.EqualFold(str(endpoint, "scheme"), "https") {
			speaks = SpeaksTLS
		}
		port, ok := endpoint["port"]
		if !ok {
			port = targeting(svc, fmt.Sprint(endpoint["targetPort"]))
		}
		b.addTo(o.reference(ViaServiceMonitor, fmt.Sprintf("endpoints[%d]", i), speaks), svc.Namespace, svc.Name, port)
	}
}

// targeting returns the number of the Service's port with the targetPort, or nil. The targetPort defaults to the port.
func targeting(svc *corev1.Service, target string) any {
	for _, p := range svc.Spec.Ports {
		if to := cmp.Or(p.TargetPort, intstr.FromInt32(p.Port)); to.String() == target {
			return p.Port
		}
	}
	return nil
}

func (b *Builder) apiService(o Object) {
	b.secureCall(o, ViaAPIService, "spec.service", at(o.Content, "spec", "service"))
}

func (b *Builder) webhooks(o Object) {
	for _, w := range list(o.Content, "webhooks") {
		b.webhook(o, "webhook "+str(w, "name"), at(w, "clientConfig", "service"))
	}
}

func (b *Builder) webhook(o Object, where string, service map[string]any) {
	b.secureCall(o, ViaWebhook, where, service)
}

// secureCall records a call by the API server, which uses TLS.
func (b *Builder) secureCall(o Object, via Via, where string, service map[string]any) {
	port, ok := service["port"]
	if !ok {
		port = 443
	}
	b.addTo(o.reference(via, where, SpeaksTLS), str(service, "namespace"), str(service, "name"), port)
}

// addService records the reference of an ExternalName Service, and the scraping of a Service.
func (b *Builder) addService(svc *corev1.Service) {
	own := Reference{Kind: "Service", Namespace: svc.Namespace, Name: svc.Name}
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		if e, _ := b.index.host(strings.TrimSuffix(svc.Spec.ExternalName, "."), svc.Namespace); e != nil {
			own.Via, own.Where, own.Address, own.Speaks = ViaExternalName, "externalName", svc.Spec.ExternalName, SpeaksUnknown
			e.add(own)
		}
	}
	if svc.Annotations["prometheus.io/scrape"] == "true" {
		own.Via, own.Where, own.Speaks = ViaScrape, "annotation prometheus.io/scrape", SpeaksPlaintext
		if svc.Annotations["prometheus.io/scheme"] == "https" {
			own.Speaks = SpeaksTLS
		}
		var port any
		if p := svc.Annotations["prometheus.io/port"]; p != "" {
			if port = targeting(svc, p); port == nil {
				port = p
			}
		}
		b.addTo(own, svc.Namespace, svc.Name, port)
	}
}

// at returns the object at a path, or nil.
func at(object map[string]any, path ...string) map[string]any {
	for _, name := range path {
		object, _ = object[name].(map[string]any)
	}
	return object
}

// str returns a member that is a string, or "".
func str(object map[string]any, name string) string {
	s, _ := object[name].(string)
	return s
}

// texts returns the strings in a member that is an object.
func texts(object map[string]any, name string) map[string]string {
	out := map[string]string{}
	for k, v := range at(object, name) {
		out[k], _ = v.(string)
	}
	return out
}

// list returns the objects in a member that is a list.
func list(object map[string]any, name string) []map[string]any {
	all, _ := object[name].([]any)
	out := make([]map[string]any, 0, len(all))
	for _, v := range all {
		if o, ok := v.(map[string]any); ok {
			out = append(out, o)
		}
	}
	return out
}
