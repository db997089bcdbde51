package sidecar

import (
	"slices"
	"strconv"
	"strings"

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

// roots returns the volume of a proxy that connects: the roots that verify servers, and the identity.
func (w Wanted) roots() corev1.Volume {
	sources := w.Roots
	if w.Identity {
		sources = append(slices.Clone(sources), volume.Identity(identityFile))
	}
	return volume.New(w.Pod, rootsVolume, sources, volume.ModeAll)
}

func rootsMount(name string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: name, MountPath: rootsDirectory, ReadOnly: true}
}

// connectFlags returns the flags with which a proxy connects to the Services; nil if there are none.
func (w Wanted) connectFlags() []string {
	if len(w.Connect) == 0 {
		return nil
	}
	out := []string{api.ProxyFlagCAFile + "=" + rootsDirectory + "/" + api.BundleKey, api.ProxyFlagClusterDomain + "=" + w.ClusterDomain}
	if w.Identity {
		out = append(out, api.ProxyFlagIdentity+"="+rootsDirectory+"/"+identityFile)
	}
	for _, c := range w.listed() {
		out = append(out, api.ProxyFlagConnect+"="+c.String())
	}
	return out
}

func isConnectFlag(arg string) bool {
	return slices.ContainsFunc([]string{api.ProxyFlagCAFile, api.ProxyFlagClusterDomain, api.ProxyFlagIdentity, api.ProxyFlagConnect}, func(flag string) bool { return strings.HasPrefix(arg, flag+"=") })
}

// listed returns the ports of the Services as the proxy gets them.
func (w Wanted) listed() (out []api.ProxyConnect) {
	for _, t := range w.Connect {
		for _, p := range t.Ports {
			out = append(out, api.ProxyConnect{Address: t.Address, Port: p.Port, Host: t.Host(), TLSPort: p.TLS, Protocol: p.Protocol})
		}
	}
	return out
}

// connects reports whether the proxy connects to exactly the wanted ports.
func (w Wanted) connects(proxy api.Proxy) bool { return slices.Equal(proxy.Connects, w.listed()) }

// direct appends the operations that direct the pod's calls to its proxy, as far as they are not already: names of the
// Services in the hosts file, and the right to listen on the numbers of their ports. Another webhook may have dropped
// some of that.
func (w Wanted) direct(proxy api.Proxy, patch jsonpatch.Patch) jsonpatch.Patch {
	own, aliases := w.Bare.Spec.HostAliases, w.aliases()
	leads := directed(proxy)
	there := slices.DeleteFunc(slices.Clone(w.Pod.Spec.HostAliases), func(a corev1.HostAlias) bool { return !leads(a) })
	switch {
	case slices.EqualFunc(there, aliases, func(a, b corev1.HostAlias) bool { return a.IP == b.IP && slices.Equal(a.Hostnames, b.Hostnames) }):
	case len(there) == 0:
		jsonpatch.Append(&patch, jsonpatch.HostAliases, len(own), aliases)
	case len(own)+len(aliases) > 0: // others lead to the proxy
		patch.Add(jsonpatch.HostAliases, slices.Concat(own, aliases))
	default:
		patch = append(patch, jsonpatch.Operation{Op: "remove", Path: jsonpatch.HostAliases})
	}
	if !slices.ContainsFunc(w.listed(), func(c api.ProxyConnect) bool { return c.Port < defaultUnprivileged }) {
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

// aliases returns the entries of the hosts file that lead to the proxy: one for each address, which is the key of the
// list.
func (w Wanted) aliases() (out []corev1.HostAlias) {
	for _, t := range w.Connect {
		i := slices.IndexFunc(out, func(a corev1.HostAlias) bool { return a.IP == t.Address })
		if i < 0 {
			i = len(out)
			out = append(out, corev1.HostAlias{IP: t.Address})
		}
		out[i].Hostnames = append(out[i].Hostnames, t.Names...)
	}
	return out
}

// disconnect appends the operations that take from a pod a proxy that connects, and should do nothing:
// it was copied with a pod, or another webhook has changed the pod since.
func (w Wanted) disconnect(proxy api.Proxy, patch jsonpatch.Patch) jsonpatch.Patch {
	if len(proxy.Connects) == 0 {
		return patch
	}
	patch = w.direct(proxy, patch)
	if len(proxy.Listeners) > 0 {
		return w.extend(proxy, nil, patch)
	}
	return append(patch, jsonpatch.Operation{Op: "remove", Path: jsonpatch.InitContainers + "/" + strconv.Itoa(proxy.Index)})
}

// directed returns whether an entry of a pod's hosts file leads to the proxy. A pod may have many of both.
func directed(proxy api.Proxy) func(corev1.HostAlias) bool {
	leads := map[[2]string]bool{}
	for _, c := range proxy.Connects {
		leads[[2]string{c.Address, c.Host}] = true
	}
	return func(alias corev1.HostAlias) bool {
		return len(leads) > 0 && slices.ContainsFunc(alias.Hostnames, func(name string) bool { return leads[[2]string{alias.IP, name}] })
	}
}
