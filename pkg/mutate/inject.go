package mutate

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// Mutate returns what Inject and Choose return for a pod, given what is known about its
// namespace. The error is an *api.FieldError about the pod's own annotations or its size,
// or a *NoPodKeysError.
func Mutate(pod *corev1.Pod, known Known) (Patch, Report, error) {
	request, err := api.ParsePod(&pod.ObjectMeta)
	if err != nil {
		return nil, Report{}, err
	}
	return Inject(pod, request, Choose(pod, request, known))
}

// Inject returns the patch that injects the chosen Secret into the pod, and a report of
// what is injected and what is skipped and why. It does not change the pod. It is
// idempotent: a second pass changes nothing that is there, whatever other webhooks have
// added in between. The error is an *api.FieldError about a pod that is too large to decide
// about, or a *NoPodKeysError.
func Inject(pod *corev1.Pod, request api.PodRequest, choice Choice) (Patch, Report, error) {
	in := newInput(pod, request, choice)
	report := Report{
		Reason: reasonInjected, By: choice.By, Trust: request.Trust,
		Secret: choice.Secret, PodKey: choice.PodKey != nil, Service: choice.Service,
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
	patch, config := injectContainers(in, &report)
	return writeStatus(in, patch, config, &report), report, nil
}

// noteContext adds the notes about the Services and the pod's annotations.
func noteContext(in *input, report *Report) {
	for _, n := range in.choice.Notes {
		report.note(n)
	}
	if in.request.Combined && !in.choice.combined && in.choice.By != ByNothing {
		report.note(Note{Reason: reasonNoCombined})
	}
	if unknown := api.UnknownPodAnnotations(in.pod.Annotations); len(unknown) > 0 {
		report.note(Note{Reason: reasonUnknownAnnotation, Detail: list(unknown)})
	}
}

// injectContainers returns the operations on volumes and containers, and the configuration
// files that the programs need.
func injectContainers(in *input, report *Report) (patch Patch, config map[string]string) {
	if in.volumes = findVolumes(in, needs{}); len(in.volumes) > 0 {
		in.volume = in.volumes[0]
	}
	chosen := selectContainers(in)
	for _, n := range chosen.notes {
		report.note(n)
		report.Reason = n.Reason // unless something is injected after all
	}
	in.targets = chosen.targets
	offers := make([]offer, len(chosen.targets))
	for i, c := range chosen.targets {
		offers[i] = in.offerTo(c, chosen.flags)
	}
	need := in.needsOf(programsOf(offers))
	volume := newVolume(in, need)
	if in.volumes = findVolumes(in, need); len(in.volumes) > 0 {
		in.volume = in.volumes[0]
	} else {
		in.volume = volume.Name
	}
	patch = make(Patch, 0, ordinaryOperations)
	placed := make([]placement, 0, len(chosen.targets))
	for i, c := range chosen.targets {
		if note, keep := firstOf(fileChecks, in, c); keep {
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
	}
	if len(placed) == 0 {
		return nil, nil
	}
	report.Reason = reasonInjected
	if len(in.volumes) == 0 {
		var first Patch
		appendTo(&first, pathVolumes, len(in.pod.Spec.Volumes), []corev1.Volume{volume})
		patch = slices.Insert(patch, 0, first...)
	}
	if in.choice.By != ByNothing {
		patch = append(patch, secureProbes(in, placed, report)...)
	}
	return patch, need.config
}

func mount(in *input, c api.ContainerRef, o offer, patch *Patch, report *Report) {
	report.has(c, partFiles)
	dirs := [...]string{in.settings.MountPath, ""}
	if o.serves {
		dirs[1] = o.recipe.mount
	}
	var missing []corev1.VolumeMount
	for _, dir := range dirs {
		if dir != "" && !mounted(c.Container, in.volume, dir) {
			missing = append(missing, corev1.VolumeMount{Name: in.volume, MountPath: dir, ReadOnly: true})
		}
	}
	appendTo(patch, fieldOf(c, "volumeMounts"), len(c.VolumeMounts), missing)
}

// setEnvironment inserts the variables before the container's own, and those of its program
// after the others. The kubelet expands variables in order, so the container's own can refer
// to the injected ones.
func setEnvironment(in *input, c api.ContainerRef, ofProgram []corev1.EnvVar, patch *Patch, report *Report) {
	for _, check := range envChecks {
		if detail, ok := check.applies(in, c.Container); ok {
			report.note(Note{Reason: check.reason, Containers: []string{c.Name}, Detail: detail})
		}
	}
	environment := in.environment()
	missing := make([]corev1.EnvVar, 0, len(environment)+len(ofProgram))
	for _, v := range environment {
		i := indexEnv(c.Container, v.Name)
		if i < 0 {
			missing = append(missing, v)
		}
		if i < 0 || c.Env[i].Value == v.Value {
			report.has(c, partEnv)
		}
	}
	insertInto(patch, fieldOf(c, "env"), len(c.Env), 0, append(missing, ofProgram...))
}

// ordinaryOperations is how many operations the patch of a pod with one container has room
// for before it grows.
const ordinaryOperations = 8

// maxAnnotations is the most bytes that the keys and values of an object's annotations
// may have together (apimachinery, TotalAnnotationSizeLimitB).
const maxAnnotations = 256 << 10

// writeStatus adds the operations on the label and on the annotations: those with
// configuration files, and the one that says what was done.
func writeStatus(in *input, patch Patch, config map[string]string, report *Report) Patch {
	meta := &in.pod.ObjectMeta
	have, labelled := meta.Labels[api.LabelInjected]
	switch {
	case report.Injected() && have != "true":
		patch.setKey(pathLabels, len(meta.Labels), api.LabelInjected, "true")
	case !report.Injected() && labelled: // copied from another pod
		patch = append(patch, Operation{Op: "remove", Path: member(pathLabels, api.LabelInjected)})
	}
	annotations := map[string]string{api.AnnotationStatus: report.status()}
	for name, content := range config {
		annotations[api.AnnotationFilePrefix+name] = content
	}
	size := sizeOf(annotations)
	for key, value := range meta.Annotations {
		if _, replaced := annotations[key]; !replaced {
			size += len(key) + len(value)
		}
	}
	if size > maxAnnotations || len(annotations[api.AnnotationStatus]) > api.MaxAnnotation {
		report.note(Note{Reason: reasonStatusTooLarge})
		delete(annotations, api.AnnotationStatus)
	}
	maps.DeleteFunc(annotations, func(k, v string) bool { current, ok := meta.Annotations[k]; return ok && current == v })
	if len(meta.Annotations) == 0 && len(annotations) > 0 {
		patch.add(pathAnnotations, annotations)
		return patch
	}
	keys := slices.AppendSeq(make([]string, 0, len(annotations)), maps.Keys(annotations)) // most have one
	slices.Sort(keys)
	for _, key := range keys {
		patch.add(member(pathAnnotations, key), annotations[key])
	}
	return patch
}
