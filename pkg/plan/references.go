package plan

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// of returns a reference without its target.
func (w Workload) of(via Via, where string, args ...any) Reference {
	return Reference{Via: via, Kind: w.Kind, Namespace: w.Namespace, Name: w.Name, Where: fmt.Sprintf(where, args...)}
}

// referencesOf records the references of a workload's containers to Services by name. Calls within
// the pod are recorded later, with the Services that select it.
func (b *Builder) referencesOf(w Workload) {
	for _, list := range [][]corev1.Container{w.Pod.Spec.InitContainers, w.Pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			values := valuesOf(c)
			for _, e := range c.Env {
				f := finding{w.of(ViaEnv, "container %s, env %s", c.Name, e.Name), namesHost(e.Name)}
				b.index.refer(f, expand(e.Value, values))
			}
			f := finding{Reference: w.of(ViaArgs, "container %s, arguments", c.Name)}
			for _, token := range slices.Concat(c.Command, c.Args) {
				b.index.refer(f, expand(token, values))
			}
		}
	}
}

// valuesOf returns the container's variables with a literal value.
func valuesOf(c *corev1.Container) map[string]string {
	values := make(map[string]string, len(c.Env))
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			values[e.Name] = expand(e.Value, values) // as the kubelet does, in order
		}
	}
	return values
}

// variable matches $(VAR), which the kubelet expands, and ${VAR}, which shells expand.
var variable = regexp.MustCompile(`\$\(([A-Za-z_][A-Za-z0-9_]*)\)|\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// maxExpanded limits the length of an expanded text, because variables may contain others.
const maxExpanded = 64 << 10

// expand replaces the variables with a known value in a text.
func expand(text string, values map[string]string) string {
	if !strings.Contains(text, "$(") && !strings.Contains(text, "${") || len(text) > maxExpanded {
		return text
	}
	left := maxExpanded - len(text)
	return variable.ReplaceAllStringFunc(text, func(ref string) string {
		value, ok := values[ref[2:len(ref)-1]]
		if left -= len(value); !ok || left < 0 {
			return ref
		}
		return value
	})
}

// configMapsOf returns the names of the ConfigMaps that a pod uses.
func configMapsOf(pod *corev1.Pod) map[string]bool {
	names := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		if v.ConfigMap != nil {
			names[v.ConfigMap.Name] = true
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				names[s.ConfigMap.Name] = true
			}
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, from := range c.EnvFrom {
			if from.ConfigMapRef != nil {
				names[from.ConfigMapRef.Name] = true
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
				names[e.ValueFrom.ConfigMapKeyRef.Name] = true
			}
		}
	}
	return names
}

// AddConfigMap records the references of a ConfigMap to Services by name, as seen from a pod in its
// namespace.
func (b *Builder) AddConfigMap(cm *corev1.ConfigMap) {
	if cm.Name == api.BundleName {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(cm.Data)) {
		r := Reference{Via: ViaConfigMap, Kind: "ConfigMap", Namespace: cm.Namespace, Name: cm.Name, Where: "key " + name}
		b.index.refer(finding{r, namesHost(name)}, strings.TrimSpace(cm.Data[name]))
	}
}

// loopback are the names of the pod's loopback interface.
var loopback = []string{"localhost", "127.0.0.1"}

// insideCalls returns the calls to the pod's own port: by its containers over loopback, and by the
// kubelet.
func (w Workload) insideCalls(port int32) []Reference {
	var out []Reference
	for _, c := range api.RunningContainers(w.Pod) {
		values := valuesOf(c.Container)
		local := func(where, text string) {
			eachAddress(text, func(a address) {
				p := protocolOf(a.scheme)
				if slices.Contains(loopback, a.host) && cmp.Or(a.port, p.port) == port {
					r := w.of(ViaLocalhost, "container %s, %s", c.Name, where)
					r.Address, r.Speaks = api.Shorten(a.text, maxAddress), p.speaks
					out = append(out, r)
				}
			})
		}
		for _, e := range c.Env {
			local("env "+e.Name, expand(e.Value, values))
		}
		for _, token := range slices.Concat(c.Command, c.Args) {
			local("arguments", expand(token, values))
		}
		for _, call := range callsTo(c.Container) {
			if call.exec != nil {
				for _, token := range call.exec.Command {
					local(call.name, expand(token, values))
				}
			}
			if n, ok := number(c.Container, call); ok && n == port {
				r := w.of(ViaProbe, "container %s, %s", c.Name, call.name)
				r.Speaks = SpeaksPlaintext
				if call.http.Scheme == corev1.URISchemeHTTPS {
					r.Speaks = SpeaksTLS
				}
				out = append(out, r)
			}
		}
	}
	return out
}

// call is a probe or a lifecycle hook.
type call struct {
	name string
	http *corev1.HTTPGetAction
	exec *corev1.ExecAction
}

func callsTo(c *corev1.Container) []call {
	var out []call
	for _, p := range []struct {
		name  string
		probe *corev1.Probe
	}{{"startupProbe", c.StartupProbe}, {"readinessProbe", c.ReadinessProbe}, {"livenessProbe", c.LivenessProbe}} {
		if p.probe != nil {
			out = append(out, call{p.name, p.probe.HTTPGet, p.probe.Exec})
		}
	}
	if c.Lifecycle == nil {
		return out
	}
	for name, h := range map[string]*corev1.LifecycleHandler{"postStart": c.Lifecycle.PostStart, "preStop": c.Lifecycle.PreStop} {
		if h != nil {
			out = append(out, call{name, h.HTTPGet, h.Exec})
		}
	}
	slices.SortFunc(out, func(a, b call) int { return cmp.Compare(a.name, b.name) })
	return out
}

// number returns the port of an HTTP call to the pod itself.
func number(c *corev1.Container, k call) (int32, bool) {
	if k.http == nil || k.http.Host != "" {
		return 0, false
	}
	if k.http.Port.StrVal == "" {
		return k.http.Port.IntVal, true
	}
	return declared(c, k.http.Port.StrVal)
}

// declared returns the number of the container's named TCP port.
func declared(c *corev1.Container, name string) (int32, bool) {
	for _, p := range c.Ports {
		if p.Name == name && cmp.Or(p.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP {
			return p.ContainerPort, true
		}
	}
	return 0, false
}
