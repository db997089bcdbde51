package mutate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Mutate returns what Inject and Choose return for a pod, given what is known about its
// namespace. The error is an *api.FieldError about the pod's own annotations.
func Mutate(pod *corev1.Pod, known Known) (Patch, Report, error) {
	request, err := api.ParsePod(&pod.ObjectMeta)
	if err != nil {
		return nil, Report{}, err
	}
	patch, report := Inject(pod, request, Choose(pod, request, known))
	return patch, report, nil
}

// Inject returns the patch that injects the chosen Secret into the pod, and a report of
// what is injected and what is skipped and why. It does not change the pod. It is
// idempotent: a second pass changes nothing that is there, whatever other webhooks have
// added in between.
func Inject(pod *corev1.Pod, request api.PodRequest, choice Choice) (Patch, Report) {
	in := &input{pod: pod, request: request, choice: choice}
	report := Report{
		Reason: reasonInjected, By: choice.By, Trust: request.Trust,
		Secret: choice.Secret, Service: choice.Service,
	}
	if reason := skipReason(in); reason != "" {
		report.Reason = reason
		switch reason {
		case ReasonNotConcerned, ReasonNotServing:
			noteContext(in, &report)
		case ReasonWindows:
			report.note(Note{Reason: ReasonWindows})
		}
		if !report.Concerned() {
			return nil, report
		}
		return writeStatus(in, nil, &report), report
	}
	noteContext(in, &report)
	patch := injectContainers(in, &report)
	return writeStatus(in, patch, &report), report
}

// noteContext adds the notes about the Services and the pod's annotations.
func noteContext(in *input, report *Report) {
	for _, n := range in.choice.Notes {
		report.note(n)
	}
	if unknown := api.UnknownPodAnnotations(in.pod.Annotations); len(unknown) > 0 {
		report.note(Note{Reason: reasonUnknownAnnotation, Detail: list(unknown)})
	}
}

// injectContainers returns the operations on volumes and containers.
func injectContainers(in *input, report *Report) Patch {
	in.volume = findVolume(in)
	found := in.volume != ""
	chosen := selectContainers(in)
	for _, n := range chosen.notes {
		report.note(n)
		report.Reason = n.Reason // unless something is injected after all
	}
	volume := newVolume(in, chosen.targets)
	if !found {
		in.volume = volume.Name
	}
	var patch Patch
	var placed []api.ContainerRef
	for _, c := range chosen.targets {
		if note, keep := firstOf(fileChecks, in, c); keep {
			report.note(note)
			report.Reason = note.Reason
			continue
		}
		placed = append(placed, c)
		mount(in, c, &patch, report)
		if in.request.Mode != api.ModeMount {
			setEnvironment(in, c, &patch, report)
		}
		if in.request.Mode == api.ModeArgs && in.choice.By != ByNothing {
			setFlags(in, c, chosen.flags, &patch, report)
		}
	}
	if len(placed) == 0 {
		return nil
	}
	report.Reason = reasonInjected
	if !found {
		var volumes Patch
		appendTo(&volumes, len(in.pod.Spec.Volumes), []corev1.Volume{volume}, "spec", "volumes")
		patch = append(volumes, patch...)
	}
	if in.choice.By != ByNothing {
		patch = append(patch, secureProbes(in, placed, report)...)
	}
	return patch
}

func mount(in *input, c api.ContainerRef, patch *Patch, report *Report) {
	report.has(c, partFiles)
	if mounted(c.Container, in.volume, in.request.MountPath) {
		return
	}
	appendTo(patch, len(c.VolumeMounts), []corev1.VolumeMount{{
		Name: in.volume, MountPath: in.request.MountPath, ReadOnly: true,
	}}, fieldOf(c, "volumeMounts")...)
}

// setEnvironment inserts the variables before the container's own. The kubelet expands
// variables in order, so the container's own can refer to the injected ones.
func setEnvironment(in *input, c api.ContainerRef, patch *Patch, report *Report) {
	for _, check := range envChecks {
		if detail, ok := check.applies(in, c.Container); ok {
			report.note(Note{Reason: check.reason, Containers: []string{c.Name}, Detail: detail})
		}
	}
	var missing []corev1.EnvVar
	for _, v := range in.environment() {
		i := indexEnv(c.Container, v.Name)
		if i < 0 {
			missing = append(missing, v)
		}
		if i < 0 || c.Env[i].Value == v.Value {
			report.has(c, partEnv)
		}
	}
	insertInto(patch, len(c.Env), 0, missing, fieldOf(c, "env")...)
}

// setFlags adds the two flags if give is true and no check keeps them out.
func setFlags(in *input, c api.ContainerRef, give bool, patch *Patch, report *Report) {
	flags := []string{
		in.request.CertFlag + "=" + in.file(corev1.TLSCertKey),
		in.request.KeyFlag + "=" + in.file(corev1.TLSPrivateKeyKey),
	}
	line := commandLineOf(c.Container)
	if in.request.ForceArgs && (len(line.tokens) == 0 && give || slices.Equal(line.tokens, flags)) {
		report.note(Note{Reason: reasonInsistedArgs, Containers: []string{c.Name}})
	}
	if flagsIn(in, c.Container) == flagsOurs {
		report.has(c, partFlags)
		return
	}
	if !give {
		return
	}
	if note, keep := firstOf(flagChecks, in, c); keep {
		report.note(note)
		return
	}
	report.has(c, partFlags)
	if at := line.end(); at < line.command {
		insertInto(patch, line.command, at, flags, fieldOf(c, "command")...)
	} else {
		insertInto(patch, len(c.Args), at-line.command, flags, fieldOf(c, "args")...)
	}
}

// maxAnnotations is the most bytes that the keys and values of an object's annotations
// may have together (apimachinery, TotalAnnotationSizeLimitB).
const maxAnnotations = 256 << 10

// writeStatus adds the operations on the label and the annotation that say what was done.
func writeStatus(in *input, patch Patch, report *Report) Patch {
	meta := &in.pod.ObjectMeta
	have, labelled := meta.Labels[api.LabelInjected]
	switch {
	case report.Injected() && have != "true":
		patch.setKey(len(meta.Labels), api.LabelInjected, "true", "metadata", "labels")
	case !report.Injected() && labelled: // copied from another pod
		patch = append(patch, Operation{Op: "remove", Path: pointer("metadata", "labels", api.LabelInjected)})
	}
	status := report.status()
	if meta.Annotations[api.AnnotationStatus] == status {
		return patch
	}
	size := len(api.AnnotationStatus) + len(status)
	for k, v := range meta.Annotations {
		if k != api.AnnotationStatus {
			size += len(k) + len(v)
		}
	}
	if size > maxAnnotations {
		report.note(Note{Reason: reasonStatusTooLarge})
		return patch
	}
	patch.setKey(len(meta.Annotations), api.AnnotationStatus, status, "metadata", "annotations")
	return patch
}
