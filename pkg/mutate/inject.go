package mutate

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/jsonpatch"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
	"github.com/servingcert/servingcert/pkg/mutate/sidecar"
	"github.com/servingcert/servingcert/pkg/mutate/volume"
)

// Mutate chooses the Secret of a pod, given what is known about its namespace, and returns the
// result of Inject for it. The error is an *api.FieldError about the pod's own annotations or its
// size, or a *NoPodKeysError.
func Mutate(pod *corev1.Pod, known choose.Known) (jsonpatch.Patch, Report, error) {
	request, err := api.ParsePod(&pod.ObjectMeta)
	if err != nil {
		return nil, Report{}, err
	}
	return Inject(pod, request, choose.Secret(pod, request, known))
}

// Inject returns the patch that injects the chosen Secret into the pod, and a report of
// what is injected, what is skipped and why. It does not change the pod. It is
// idempotent: a second pass changes nothing that the first has added, whatever other
// webhooks have added in between. The error is an *api.FieldError about a pod that is too
// large, or a *NoPodKeysError.
func Inject(pod *corev1.Pod, request api.PodRequest, choice choose.Choice) (jsonpatch.Patch, Report, error) {
	in := newInput(pod, request, choice)
	report := Report{
		Reason: reasons.Injected, By: choice.By, Trust: in.asksForTrust(),
		Secret: choice.Secret, PodKey: choice.PodKey != nil, Service: choice.Service,
	}
	if reason := skipReason(in); reason != "" {
		report.Reason = reason
		switch reason {
		case reasons.NotConcerned, reasons.NotServing:
			noteContext(in, &report)
		case reasons.Windows:
			report.note(reasons.Note{Reason: reasons.Windows})
		}
		if !report.Concerned() {
			return nil, report, nil
		}
		return writeStatus(in, nil, nil, &report), report, nil
	}
	if choice.NoPodKeys {
		return nil, Report{}, &NoPodKeysError{choice.Service}
	}
	if err := checkSize(in); err != nil {
		return nil, Report{}, err
	}
	noteContext(in, &report)
	var patch jsonpatch.Patch
	var config map[string]string
	if programs := in.ofPrograms(); programs.choice.By != choose.ByNothing || in.asksForBundle() {
		patch, config = injectContainers(programs, &report)
		in.placed = programs.placed
	}
	patch = addTrust(in, patch, &report)
	patch = addIdentity(in, patch, &report)
	patch = addProxy(in, patch, &report)
	if in.choice.Host != "" { // only the kubelet writes a mirror pod
		return patch, report, nil
	}
	return writeStatus(in, patch, config, &report), report, nil
}

// NoPodKeysError reports that the kubelet should make the pod's key, but the cluster does not
// support this. The API server would drop the source of the volume.
type NoPodKeysError struct{ Service string }

func (e *NoPodKeysError) Error() string {
	return fmt.Sprintf("Service %q has %s: %s, but this cluster does not serve PodCertificateRequests: Kubernetes 1.37 does by default, and 1.36 with feature gate PodCertificateRequest and API certificates.k8s.io/v1beta1; or set %s: %s",
		e.Service, api.AnnotationKeySource, api.KeySourcePod, api.AnnotationKeySource, api.KeySourceSecret)
}

// NeedsLookup reports whether the decision about the pod depends on objects of its
// namespace. request is the result of api.ParsePod for the pod.
func NeedsLookup(pod *corev1.Pod, request api.PodRequest) bool {
	switch api.Exempt(pod, request) {
	case api.ExemptMirrorPod, api.ExemptOptedOut:
		return false
	}
	return true // a Windows pod gets a warning if it would get a Secret
}

// skipReason returns why nothing at all is injected into the pod, or "".
func skipReason(in *input) reasons.Reason {
	if NeedsLookup(in.pod, in.request) && in.choice.By == choose.ByNothing && !in.asksForTrust() && !in.asksForIdentity() && len(in.choice.Connect) == 0 && !in.connected() {
		if in.choice.NotServing {
			return reasons.NotServing
		}
		return reasons.NotConcerned
	}
	return reasons.Reason(api.Exempt(in.pod, in.request))
}

// noteContext adds the notes about the Services and the pod's annotations.
func noteContext(in *input, report *Report) {
	for _, n := range in.choice.Notes {
		report.note(n)
	}
	for f := range (in.request.Formats &^ in.choice.Formats).Formats() {
		report.note(reasons.Note{Reason: reasons.NoFormat(f), Detail: in.whyNoFormat(f)})
	}
	if unknown := api.UnknownPodAnnotations(in.pod.Annotations); len(unknown) > 0 {
		report.note(reasons.Note{Reason: reasons.UnknownAnnotation, Detail: reasons.List(unknown)})
	}
}

// whyNoFormat returns why a pod without a Secret cannot have the requested format, and what to do; ""
// for a pod with a Secret, where the rule explains it.
func (in *input) whyNoFormat(f *formats.Format) string {
	switch {
	case in.choice.By != choose.ByNothing && in.choice.PodKey == nil:
		return ""
	case f == &formats.Truststore:
		return "set the annotation on the Namespace, and mount that key of ConfigMap " + api.BundleName
	case in.choice.By == choose.ByNothing:
		return "the pod gets no certificate"
	}
	return "a kubelet that makes the key does not write it: set " + api.AnnotationKeySource + ": " + string(api.KeySourceSecret)
}

// ofPrograms returns the input for the decision about the pod's own programs: if only the
// proxy serves TLS, they are clients.
func (in *input) ofPrograms() *input {
	out := *in
	if in.onlyProxied() {
		out.choice.By = choose.ByNothing
	}
	return &out
}

// onlyProxied reports whether the pod's own programs get nothing because only a proxy serves
// TLS for its Services, and neither pod nor Service requests anything else.
func (in *input) onlyProxied() bool {
	said := in.request.Or(in.choice.ServiceSettings)
	asked := in.choice.By == choose.ByPod || said.Mode != "" || len(said.Containers) > 0 || said.NamesFlags() || said.MountPath != "" || in.request.Formats != 0
	return len(in.choice.Proxied) > 0 && len(in.choice.Ports) == 0 && !asked
}

// injectContainers returns the operations on volumes and containers, and the configuration
// files that the programs need.
func injectContainers(in *input, report *Report) (patch jsonpatch.Patch, config map[string]string) {
	if in.volumes = in.contents(volume.Files{}).Find(in.pod); len(in.volumes) > 0 {
		in.volume = in.volumes[0]
	}
	chosen := selectContainers(in)
	for _, n := range chosen.notes {
		report.note(n)
		report.Reason = n.Reason // unless something is injected below
	}
	in.targets = chosen.targets
	offers := make([]offer, len(chosen.targets))
	for i, c := range chosen.targets {
		offers[i] = in.offerTo(c, chosen.flags)
	}
	need := in.contents(in.needsOf(programsOf(offers)))
	added := need.Volume(in.whole, volumeName, in.modeOfFiles())
	if in.volumes = need.Find(in.pod); len(in.volumes) > 0 {
		in.volume = in.volumes[0]
	} else {
		in.volume = added.Name
	}
	patch = make(jsonpatch.Patch, 0, ordinaryOperations)
	placed := make([]placement, 0, len(chosen.targets))
	for i, c := range chosen.targets {
		if note, keep := in.obstacle(c); keep {
			report.note(note)
			report.Reason = note.Reason
			continue
		}
		placed = append(placed, placement{c, offers[i]})
		mount(in, c, offers[i], &patch, report)
		if in.settings.Mode != api.ModeMount {
			setEnvironment(in, c, offers[i].env, &patch, report)
		}
		give(c, offers[i], &patch, report)
		if in.choice.By != choose.ByNothing {
			report.runs(c, in.programOf(c.Container))
		}
	}
	if in.placed = placed; len(placed) == 0 {
		return nil, nil
	}
	report.Reason = reasons.Injected
	if len(in.volumes) == 0 {
		var first jsonpatch.Patch
		jsonpatch.Append(&first, jsonpatch.Volumes, len(in.pod.Spec.Volumes), []corev1.Volume{added})
		patch = slices.Insert(patch, 0, first...)
	}
	if in.choice.By != choose.ByNothing {
		patch = append(patch, secureProbes(in, placed, report)...)
	}
	return patch, need.Files.Config
}

// addProxy appends the operations on the proxy that the Services request, or that connects to others.
func addProxy(in *input, patch jsonpatch.Patch, report *Report) jsonpatch.Patch {
	if len(in.pod.Spec.Containers) == 0 {
		return patch
	}
	if len(in.choice.Proxied)+len(in.choice.Connect) == 0 && !in.connected() {
		noteProxy(in, report, sidecar.Unused(in.settings.ProxyProtocol, nil))
		return patch
	}
	patch, proxy, notes := sidecar.Wanted{
		Pod: in.whole, Bare: in.pod, Ports: in.choice.Proxied, Own: in.choice.Ports, ServesTLS: in.servesTLS,
		ProxyProtocol: in.settings.ProxyProtocol, Pair: in.choice.Pair(), Image: in.choice.ProxyImage,
		Connect: in.choice.Connect, Roots: volume.Contents{Trust: true, TrustBundle: in.choice.TrustBundle}.Sources(),
		Identity: in.choice.TrustDomain != "", Guarded: in.choice.Admits != "",
		ClusterDomain: cmp.Or(in.choice.ClusterDomain, api.DefaultLimits().ClusterDomain),
		PullSecrets:   in.choice.ProxyPullSecrets, Resources: in.settings.ProxyResources, Amounts: in.choice.ProxyResources,
	}.Add(patch)
	noteProxy(in, report, notes)
	if proxy.Container == nil {
		switch {
		case len(notes) == 0:
			if !report.Injected() {
				report.Reason = reasons.NotConcerned
			}
		case !report.Injected() || in.onlyProxied(): // the bundle is not the certificate
			report.Reason = notes[0].Reason
		}
		return patch
	}
	refused := slices.ContainsFunc(notes, func(n reasons.Note) bool { return n.Reason == reasons.ProxyNameTaken })
	if report.Reason = reasons.Injected; refused && in.onlyProxied() { // what serves is left alone
		report.Reason = reasons.ProxyNameTaken
	}
	was := slices.IndexFunc(in.whole.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == api.ProxyContainer })
	switch {
	case was > proxy.Index:
		report.shift(was)
	case was < 0 && proxy.Index == 0:
		report.shift(afterInit)
	}
	if len(in.choice.Proxied) > 0 && !refused {
		report.has(proxy, partProxy)
	}
	if len(in.choice.Connect) > 0 {
		report.has(proxy, partConnect)
		if in.choice.TrustDomain == "" {
			report.note(reasons.Note{Reason: reasons.NoProxyIdentity})
		}
	}
	return patch
}

// connected reports whether the pod already has a proxy that connects to Services.
func (in *input) connected() bool {
	proxy, ok := api.ProxyOf(in.whole)
	return ok && len(proxy.Connects) > 0
}

// noteProxy adds the notes about the proxy. A port that the Namespace lists need not exist in
// each of its pods.
func noteProxy(in *input, report *Report, notes []reasons.Note) {
	byNamespace := len(in.request.Or(in.choice.ServiceSettings).ProxyProtocol) == 0
	for _, n := range notes {
		if n.Reason != reasons.ProxyProtocolUnused || !byNamespace {
			report.note(n)
		}
	}
}

func mount(in *input, c api.ContainerRef, o offer, patch *jsonpatch.Patch, report *Report) {
	report.has(c, partFiles)
	dirs := [...]string{in.settings.MountPath, ""}
	if o.serves {
		dirs[1] = o.recipe.mount
	}
	var missing []corev1.VolumeMount
	for _, dir := range dirs {
		if dir != "" && !volume.Mounted(c.Container, in.volume, dir) {
			missing = append(missing, corev1.VolumeMount{Name: in.volume, MountPath: dir, ReadOnly: true})
		}
	}
	jsonpatch.Append(patch, jsonpatch.Field(c, "volumeMounts"), len(c.VolumeMounts), missing)
}

// ordinaryOperations is the initial capacity of a patch, for a pod with one container.
const ordinaryOperations = 8
