package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
)

// Patch is a Service with only the fields to add, for kubectl patch. It is not safe with kubectl apply: see
// [Service.Complete].
type Patch struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Metadata   PatchMetadata `json:"metadata"`
	Spec       *PatchSpec    `json:"spec,omitempty"`

	order []portNumber // of the Service's ports with the additions
}

// PatchMetadata names the Service, and holds the annotation to add.
type PatchMetadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// PatchSpec holds the ports to add, and a port that gets a name.
type PatchSpec struct {
	Ports []PatchPort `json:"ports"`
}

// PatchPort is a port. Ports are merged by number and protocol.
type PatchPort struct {
	Name       string `json:"name"`
	Port       int32  `json:"port"`
	Protocol   string `json:"protocol"`
	TargetPort any    `json:"targetPort,omitempty"`
}

// portNumber identifies a port in the order of a strategic merge patch.
type portNumber struct {
	Port int32 `json:"port"`
}

func patchOf(svc *corev1.Service, s *Service) *Patch {
	p := &Patch{APIVersion: "v1", Kind: "Service", Metadata: PatchMetadata{Name: s.Name, Namespace: s.Namespace}}
	if !api.Asks(svc) {
		p.Metadata.Annotations = s.request.annotations()
	}
	if s.Way != WayPort {
		return p
	}
	p.Spec = &PatchSpec{}
	taken := takenBy(svc)
	for i, have := range s.Ports {
		if have.Proxy == "" || taken.targets[have.Proxy] {
			continue
		}
		taken.targets[have.Proxy] = true
		if have.Name == "" { // the API server requires names if there are several ports
			have.Name = taken.name("http")
			p.Spec.Ports = append(p.Spec.Ports, PatchPort{Name: have.Name, Port: have.Port, Protocol: "TCP", TargetPort: value(api.TargetPort(svc.Spec.Ports[i]))})
		}
		p.Spec.Ports = append(p.Spec.Ports, PatchPort{Name: taken.name(secureName(have.Name)), Port: taken.port(have.Port), Protocol: "TCP", TargetPort: have.Proxy})
	}
	p.keepOrder(svc)
	return p
}

// keepOrder records that the Service's ports stay where they are and the new ones follow, and lists the ports of the
// patch in that order, as the API server demands. Without an order the API server puts what a patch lists first, and
// scripts read .spec.ports[0].
func (p *Patch) keepOrder(svc *corev1.Service) {
	position := map[int32]int{}
	add := func(port int32) {
		if _, has := position[port]; !has { // the API server merges ports by their numbers alone
			position[port] = len(p.order)
			p.order = append(p.order, portNumber{port})
		}
	}
	for _, port := range svc.Spec.Ports {
		add(port.Port)
	}
	for _, port := range p.Spec.Ports {
		add(port.Port)
	}
	slices.SortStableFunc(p.Spec.Ports, func(a, b PatchPort) int { return cmp.Compare(position[a.Port], position[b.Port]) })
}

// applied returns a copy of the Service with the additions; the Service itself if p is nil.
func (p *Patch) applied(svc *corev1.Service) *corev1.Service {
	if p == nil {
		return svc
	}
	out := svc.DeepCopy()
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	maps.Copy(out.Annotations, p.Metadata.Annotations)
	if p.Spec == nil {
		return out
	}
	for _, port := range p.Spec.Ports {
		i := slices.IndexFunc(out.Spec.Ports, func(have corev1.ServicePort) bool {
			return have.Port == port.Port && cmp.Or(have.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP
		})
		if i >= 0 {
			out.Spec.Ports[i].Name = port.Name
			continue
		}
		out.Spec.Ports = append(out.Spec.Ports, corev1.ServicePort{Name: port.Name, Port: port.Port, Protocol: corev1.ProtocolTCP, TargetPort: intstr.Parse(fmt.Sprint(port.TargetPort))})
	}
	return out
}

// Only returns an error if after, the server's result of applying the patch to before, has other changes than the
// additions.
func (p *Patch) Only(before, after *corev1.Service) error {
	want := p.applied(before)
	got := after.DeepCopy()
	for i := range got.Spec.Ports { // the server allocates node ports for new ports
		if !slices.ContainsFunc(before.Spec.Ports, func(have corev1.ServicePort) bool {
			return have.Port == got.Spec.Ports[i].Port && have.Protocol == got.Spec.Ports[i].Protocol
		}) {
			got.Spec.Ports[i].NodePort = 0
		}
	}
	slices.SortStableFunc(want.Spec.Ports, compareNumbers) // a merge may change the order
	slices.SortStableFunc(got.Spec.Ports, compareNumbers)
	switch {
	case !equality.Semantic.DeepEqual(want.Spec, got.Spec):
		return errors.New("its spec differs in more than the added ports")
	case !equality.Semantic.DeepEqual(want.Annotations, got.Annotations):
		return errors.New("its annotations differ in more than the added one")
	case !equality.Semantic.DeepEqual(want.Labels, got.Labels):
		return errors.New("its labels differ")
	}
	return nil
}

func compareNumbers(a, b corev1.ServicePort) int {
	return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol))
}

// Merge returns the strategic merge patch for the API server, which refuses it if the Service has changed since it
// was read.
func (p *Patch) Merge(read *corev1.Service) []byte {
	metadata := p.metadata()
	metadata["uid"], metadata["resourceVersion"] = read.UID, read.ResourceVersion
	return body(metadata, p.spec())
}

// spec returns the additions to the spec, or nil: not a nil pointer in an interface.
func (p *Patch) spec() any {
	if p.Spec == nil {
		return nil
	}
	return map[string]any{"ports": p.Spec.Ports, "$setElementOrder/ports": p.order}
}

// Undo returns the strategic merge patch that removes the additions. It contains the UID, so that it applies to no
// other Service of that name. A name that a port got is kept.
func (p *Patch) Undo(before *corev1.Service) []byte {
	metadata := map[string]any{"uid": before.UID}
	if len(p.Metadata.Annotations) > 0 {
		none := map[string]any{}
		for name := range p.Metadata.Annotations {
			none[name] = nil
		}
		metadata["annotations"] = none
	}
	if p.Spec == nil {
		return body(metadata, nil)
	}
	ports := []map[string]any{}
	for _, port := range p.Spec.Ports {
		if !slices.ContainsFunc(before.Spec.Ports, func(have corev1.ServicePort) bool { return have.Port == port.Port }) {
			ports = append(ports, map[string]any{"port": port.Port, "$patch": "delete"})
		}
	}
	return body(metadata, map[string]any{"ports": ports})
}

// merge returns the patch for kubectl patch.
func (p *Patch) merge() string { return string(body(p.metadata(), p.spec())) }

// metadata returns the additions to the metadata.
func (p *Patch) metadata() map[string]any {
	if len(p.Metadata.Annotations) == 0 {
		return map[string]any{}
	}
	return map[string]any{"annotations": p.Metadata.Annotations}
}

// body returns a strategic merge patch.
func body(metadata map[string]any, spec any) []byte {
	out := map[string]any{}
	if len(metadata) > 0 {
		out["metadata"] = metadata
	}
	if spec != nil {
		out["spec"] = spec
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err) // impossible: it consists of strings and numbers
	}
	return text
}

func value(t intstr.IntOrString) any {
	if t.Type == intstr.String {
		return t.StrVal
	}
	return t.IntVal
}

// secureName returns the name of the TLS port for a port. The prefixes grpc and h2c are kept, because they
// declare HTTP/2.
func secureName(name string) string {
	switch first, rest, _ := strings.Cut(name, "-"); {
	case first == "http" && rest == "", first == "web" && rest == "":
		return "https"
	case first == "http":
		return "https-" + rest
	}
	return name + "-tls"
}

// taken holds the names, numbers and targets of a Service's ports.
type taken struct {
	names, targets map[string]bool
	numbers        map[int32]bool
}

func takenBy(svc *corev1.Service) taken {
	t := taken{map[string]bool{}, map[string]bool{}, map[int32]bool{}}
	for _, p := range svc.Spec.Ports {
		t.names[p.Name], t.numbers[p.Port] = true, true
	}
	return t
}

// maxPortName is the maximum length of a Service port's name.
const maxPortName = 63

func (t taken) name(want string) string {
	name := want[:min(len(want), maxPortName)]
	for i := 2; t.names[name]; i++ {
		suffix := fmt.Sprintf("-%d", i)
		name = want[:min(len(want), maxPortName-len(suffix))] + suffix
	}
	t.names[name] = true
	return name
}

// secure maps the ports of protocols to their TLS ports.
var secure = map[int32]int32{80: 443, 8080: 8443, 6379: 6380, 5672: 5671, 1883: 8883, 389: 636, 25: 465, 143: 993, 110: 995}

// port returns a free number for the TLS port: the usual one, else 443, 8443, 10000 more, or the first free one from
// 10443 on.
func (t taken) port(of int32) int32 {
	const last = 65535
	for _, n := range []int32{secure[of], 443, 8443, of + 10000} {
		if n > 0 && n <= last && !t.numbers[n] {
			t.numbers[n] = true
			return n
		}
	}
	n := int32(10443)
	for t.numbers[n] {
		n++
	}
	t.numbers[n] = true
	return n
}
