package sidecar

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/connect"
	"github.com/servingcert/servingcert/pkg/mutate/jsonpatch"
	"github.com/servingcert/servingcert/pkg/mutate/volume"
)

const (
	// rootsVolume is the volume with the roots that verify the servers. A number is appended if the
	// name is taken.
	rootsVolume = api.ProxyContainer + "-ca"
	// rootsDirectory is where the proxy has it.
	rootsDirectory = "/etc/servingcert-ca"
	// defaultUnprivileged is the kernel's default of connect.UnprivilegedPorts.
	defaultUnprivileged = 1024
)

func (w Wanted) roots() corev1.Volume { return volume.New(w.Pod, rootsVolume, w.Roots, volume.ModeAll) }

func rootsMount(name string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: name, MountPath: rootsDirectory, ReadOnly: true}
}

// connectFlags returns the flags with which a proxy connects to the Services; nil if there are none.
func (w Wanted) connectFlags() []string {
	if len(w.Connect) == 0 {
		return nil
	}
	out := []string{api.ProxyFlagCAFile + "=" + rootsDirectory + "/" + api.BundleKey, api.ProxyFlagClusterDomain + "=" + w.ClusterDomain}
	for _, t := range w.Connect {
		for _, p := range t.Ports {
			c := api.ProxyConnect{Address: t.Address, Port: p.Port, Host: t.Host(), TLSPort: p.TLS, Protocol: p.Protocol}
			out = append(out, api.ProxyFlagConnect+"="+c.String())
		}
	}
	return out
}

// direct appends the operations that direct the pod's calls to its proxy: names of the Services in
// the hosts file, and the right to listen on the numbers of their ports. A pod whose proxy already
// connects to Services has them.
func (w Wanted) direct(proxy api.Proxy, patch jsonpatch.Patch) jsonpatch.Patch {
	if len(proxy.Connects) > 0 || len(w.Connect) == 0 {
		return patch
	}
	aliases := make([]corev1.HostAlias, len(w.Connect))
	privileged := false
	for i, t := range w.Connect {
		aliases[i] = corev1.HostAlias{IP: t.Address, Hostnames: t.Names}
		privileged = privileged || slices.ContainsFunc(t.Ports, func(p connect.Port) bool { return p.Port < defaultUnprivileged })
	}
	jsonpatch.Append(&patch, jsonpatch.HostAliases, len(w.Pod.Spec.HostAliases), aliases)
	if !privileged {
		return patch
	}
	allow := corev1.Sysctl{Name: connect.UnprivilegedPorts, Value: "0"}
	c := w.Pod.Spec.SecurityContext
	switch {
	case c == nil:
		patch.Add(jsonpatch.SecurityContext, corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{allow}})
	case !slices.ContainsFunc(c.Sysctls, func(s corev1.Sysctl) bool { return s.Name == connect.UnprivilegedPorts }):
		jsonpatch.Append(&patch, jsonpatch.SecurityContext+"/sysctls", len(c.Sysctls), []corev1.Sysctl{allow})
	}
	return patch
}

// directed reports whether an entry of a pod's hosts file leads to the proxy.
func directed(proxy api.Proxy, alias corev1.HostAlias) bool {
	return slices.ContainsFunc(proxy.Connects, func(c api.ProxyConnect) bool {
		return c.Address == alias.IP && slices.Contains(alias.Hostnames, c.Host)
	})
}
