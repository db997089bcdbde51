package sidecar

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/jsonpatch"
	"github.com/servingcert/servingcert/pkg/mutate/volume"
)

const (
	// pairVolume is the volume with the pair, which only the proxy mounts, and tokenVolume
	// an empty one. A number is appended if the name is taken.
	pairVolume  = api.ProxyContainer
	tokenVolume = api.ProxyContainer + "-token"
	// tokenDirectory is where the API server mounts the token of the pod's ServiceAccount,
	// unless something is mounted there.
	tokenDirectory = "/var/run/secrets/kubernetes.io/serviceaccount"
	// program is the path of the proxy in its image.
	program = "/proxy"
	// user is the user of the proxy in pods whose user is root; otherwise the pod or the
	// image sets it, because some platforms assign users.
	user = 65532
)

// extend appends the operations that make an existing proxy listen on more ports, and connect to the
// Services that it should, and to no others: it may have been copied with a pod of another namespace.
func (w Wanted) extend(proxy api.Proxy, wanted []api.ProxyListener, patch jsonpatch.Patch) jsonpatch.Patch {
	var missing []string
	var volumes []corev1.Volume
	var mounts []corev1.VolumeMount
	if len(wanted) > 0 && len(proxy.Listeners) == 0 {
		pair := w.pair()
		volumes, mounts = append(volumes, pair), append(mounts, pairMount(pair.Name))
		missing = append(missing, certDirFlag)
	}
	for _, l := range wanted {
		if !slices.Contains(proxy.Listeners, l) {
			missing = append(missing, listenFlag(l))
		}
	}
	args := jsonpatch.Field(proxy.ContainerRef, "args")
	if !w.connects(proxy) || !w.guards(proxy) {
		mounted := mountsAt(proxy, rootsDirectory)
		if mounted { // with or without the file
			w.Identity = proxy.Has(api.ProxyFlagIdentity)
		}
		kept := slices.DeleteFunc(slices.Clone(proxy.Args), func(arg string) bool { return isConnectFlag(arg) || slices.Contains(guardFlags, arg) })
		patch.Add(args, slices.Concat(kept, missing, w.guardFlags(), w.connectFlags()))
		if len(w.Connect) > 0 && !mounted {
			roots := w.roots()
			volumes, mounts = append(volumes, roots), append(mounts, rootsMount(roots.Name))
		}
		if w.Guarded && !mountsAt(proxy, clientsDirectory) {
			clients := w.clients()
			volumes, mounts = append(volumes, clients), append(mounts, clientsMount(clients.Name))
		}
	} else {
		jsonpatch.Append(&patch, args, len(proxy.Args), missing)
	}
	jsonpatch.Append(&patch, jsonpatch.Volumes, patch.Grown(jsonpatch.Volumes, len(w.Pod.Spec.Volumes)), volumes)
	jsonpatch.Append(&patch, jsonpatch.Field(proxy.ContainerRef, "volumeMounts"), len(proxy.VolumeMounts), mounts)
	return patch
}

// moveFirst appends the operations that move a proxy before the other init containers, which may call Services.
// Operations on these come before, because this changes their indexes.
func moveFirst(proxy api.Proxy, patch jsonpatch.Patch) (api.Proxy, jsonpatch.Patch) {
	if proxy.Index == 0 {
		return proxy, patch
	}
	patch = append(patch, jsonpatch.Operation{Op: "remove", Path: jsonpatch.InitContainers + "/" + strconv.Itoa(proxy.Index)})
	patch.Add(jsonpatch.InitContainers+"/0", *proxy.Container)
	proxy.Index = 0
	return proxy, patch
}

// pair returns the volume with the pair. The user of the proxy is not known, and nothing else mounts the
// volume: all users may read it.
func (w Wanted) pair() corev1.Volume {
	return volume.New(w.Pod, pairVolume, []corev1.VolumeProjection{w.Pair.Source(0)}, volume.ModeAll)
}

func pairMount(name string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: name, MountPath: api.DefaultMountPath, ReadOnly: true}
}

const certDirFlag = api.ProxyFlagCertDir + "=" + api.DefaultMountPath

func listenFlag(l api.ProxyListener) string { return api.ProxyFlagListen + "=" + l.String() }

// create appends the operations that add the proxy: after all other init containers, so that it does
// not delay them, or before them if it connects to Services, which they may call. Operations on these
// come before, because this changes their indexes.
func (w Wanted) create(wanted []api.ProxyListener, patch jsonpatch.Patch) jsonpatch.Patch {
	// The cluster autoscaler keeps nodes for pods with an emptyDir that is not in memory.
	token := corev1.Volume{Name: volume.FreeName(w.Pod, tokenVolume)}
	token.EmptyDir = &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
	volumes, mounts := []corev1.Volume{}, []corev1.VolumeMount{}
	if len(wanted) > 0 {
		pair := w.pair()
		volumes, mounts = append(volumes, pair), append(mounts, pairMount(pair.Name))
	}
	volumes, mounts = append(volumes, token), append(mounts, corev1.VolumeMount{Name: token.Name, MountPath: tokenDirectory, ReadOnly: true})
	if len(w.Connect) > 0 {
		roots := w.roots()
		volumes, mounts = append(volumes, roots), append(mounts, rootsMount(roots.Name))
	}
	if w.Guarded {
		clients := w.clients()
		volumes, mounts = append(volumes, clients), append(mounts, clientsMount(clients.Name))
	}
	jsonpatch.Append(&patch, jsonpatch.Volumes, patch.Grown(jsonpatch.Volumes, len(w.Pod.Spec.Volumes)), volumes)
	at, have := 0, len(w.Pod.Spec.InitContainers)
	if len(w.Connect) == 0 {
		at = have
	}
	jsonpatch.Insert(&patch, jsonpatch.InitContainers, have, at, []corev1.Container{w.container(wanted, mounts)})
	return patch
}

// pull appends the operations that let the kubelet pull the image of the proxy. The API server has
// already added the pull secrets of the ServiceAccount if the pod had none.
func (w Wanted) pull(patch jsonpatch.Patch) jsonpatch.Patch {
	have := w.Pod.Spec.ImagePullSecrets
	var missing []corev1.LocalObjectReference
	for _, name := range w.PullSecrets {
		if ref := (corev1.LocalObjectReference{Name: name}); !slices.Contains(have, ref) && !slices.Contains(missing, ref) {
			missing = append(missing, ref)
		}
	}
	jsonpatch.Append(&patch, jsonpatch.ImagePullSecrets, len(have), missing)
	return patch
}

// container returns the native sidecar.
func (w Wanted) container(wanted []api.ProxyListener, mounts []corev1.VolumeMount) corev1.Container {
	always := corev1.ContainerRestartPolicyAlways
	next := w.freePorts(api.Proxy{})
	admin := api.ProxyFlagAdmin + "=127.0.0.1:" + strconv.Itoa(int(next()))
	args := []string{admin}
	if len(wanted) > 0 {
		args = []string{certDirFlag, admin}
	}
	for _, l := range wanted {
		args = append(args, listenFlag(l))
	}
	args = slices.Concat(args, w.guardFlags(), w.connectFlags())
	// The proxy listens once it has loaded the certificate and the roots. Until then the next container
	// waits, so the probe must not depend on the program, which has not started yet.
	var ready *corev1.Probe
	started := corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{program, admin, api.ProxyFlagCheck}}}
	if len(wanted) > 0 {
		started = corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(wanted[0].Port)}}
		ready = &corev1.Probe{ProbeHandler: started}
	}
	return corev1.Container{
		Name: api.ProxyContainer, Image: w.Image, ImagePullPolicy: corev1.PullIfNotPresent,
		Args: args, RestartPolicy: &always,
		Env:            []corev1.EnvVar{fromStatus("POD_IP", "status.podIP"), fromStatus("POD_IPS", "status.podIPs")},
		Resources:      w.resources(),
		VolumeMounts:   mounts,
		StartupProbe:   &corev1.Probe{ProbeHandler: started, PeriodSeconds: 1, FailureThreshold: 60},
		ReadinessProbe: ready,

		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext:          security(w.Bare),
	}
}

func fromStatus(name, field string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: field}}}
}

// security returns a security context that the Pod Security Standard "restricted" accepts.
func security(pod *corev1.Pod) *corev1.SecurityContext {
	yes, no := true, false
	s := &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, RunAsNonRoot: &yes, ReadOnlyRootFilesystem: &yes,
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if c := pod.Spec.SecurityContext; c != nil && c.RunAsUser != nil && *c.RunAsUser == 0 {
		id := int64(user)
		s.RunAsUser = &id
	}
	return s
}

// declare appends the operations that declare the names of the proxy's ports on ordinary
// containers, if possible on the one with the program's port. Before Kubernetes 1.33, ports of
// native sidecars are not added to EndpointSlices. Declared ports are only informational, so
// the proxy may listen on them.
func (w Wanted) declare(wanted []api.ProxyListener, patch jsonpatch.Patch) jsonpatch.Patch {
	byContainer := make([][]corev1.ContainerPort, len(w.Pod.Spec.Containers))
	for _, l := range wanted {
		port := corev1.ContainerPort{Name: l.Name, ContainerPort: l.Port, Protocol: corev1.ProtocolTCP}
		at, declared := 0, false
		for i := len(w.Pod.Spec.Containers) - 1; i >= 0; i-- {
			c := api.ContainerRef{Container: &w.Pod.Spec.Containers[i]}
			declared = declared || slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.Name && p.ContainerPort == port.ContainerPort })
			if slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == l.Upstream }) {
				at = i
			}
		}
		if !declared {
			byContainer[at] = append(byContainer[at], port)
		}
	}
	for i, ports := range byContainer {
		c := api.ContainerRef{Container: &w.Pod.Spec.Containers[i], Index: i}
		jsonpatch.Append(&patch, jsonpatch.Field(c, "ports"), len(c.Ports), ports)
	}
	return patch
}
