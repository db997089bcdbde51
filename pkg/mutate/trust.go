package mutate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/jsonpatch"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
	"github.com/servingcert/servingcert/pkg/mutate/volume"
)

const (
	// trustVolume is the name of the volume for api.TrustEnv. It is separate from the pair's
	// volume, which not every container may have, and whose updates a missing file must not stop.
	trustVolume = "servingcert-trust"
	// trustSuffix is appended to the mount path if the pair is mounted there.
	trustSuffix = "-trust"
)

// adding are the variables that name additional roots. replacing are those that name all roots
// of a program, so that they need the public ones too.
var (
	adding    = []string{api.EnvCAFile, "NODE_EXTRA_CA_CERTS"}
	replacing = []string{"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "AWS_CA_BUNDLE"}
)

// javaOptions is the variable from which every Java virtual machine takes options.
const javaOptions = "JAVA_TOOL_OPTIONS"

// asksForTrust reports whether the pod requests the CA bundle as a client.
func (in *input) asksForTrust() bool { return in.settings.Trust != api.TrustFalse }

// asksForBundle reports whether the pod's volume needs the CA bundle, with or without the pair. A
// static pod cannot mount API objects: it has only the files on its node.
func (in *input) asksForBundle() bool {
	return in.settings.Trust == api.TrustTrue || in.settings.Trust == api.TrustEnv && in.choice.Host != ""
}

// addTrust appends the operations for api.TrustEnv: a volume with roots, and in every container
// the variables that runtimes read.
func addTrust(in *input, patch jsonpatch.Patch, report *Report) jsonpatch.Patch {
	if in.settings.Trust != api.TrustEnv {
		return patch
	}
	public, why := in.publicRoots()
	if !public {
		left := append(slices.Clone(replacing), javaOptions)
		report.note(reasons.Note{Reason: reasons.NoPublicRoots, Detail: why + ": " + strings.Join(left, ", ")})
	}
	if in.asksForBundle() {
		return patch
	}
	want := volume.Contents{Trust: true, TrustBundle: in.choice.TrustBundle, Public: public}
	added, dir := want.Volume(in.whole, trustVolume, volume.ModeAll), in.settings.MountPath
	server := in.ofPrograms().choice.By != choose.ByNothing
	if server {
		dir += trustSuffix
	}
	name, exists := added.Name, false
	if found := want.Find(in.withoutKeys()); len(found) > 0 {
		name, exists = found[0], true
	}
	environment, placed := trustEnvironment(dir, public), false
	for _, c := range in.all() {
		if reason, detail := volume.Obstacle(in.pod, c.Container, name, dir); reason != "" {
			report.note(reasons.Note{Reason: reason, Containers: []string{c.Name}, Detail: detail})
			if !server && !placed {
				report.Reason = reason
			}
			continue
		}
		placed = true
		report.has(c, partTrust)
		if !volume.Mounted(c.Container, name, dir) {
			path := jsonpatch.Field(c, "volumeMounts")
			jsonpatch.Append(&patch, path, patch.Grown(path, len(c.VolumeMounts)), []corev1.VolumeMount{{Name: name, MountPath: dir, ReadOnly: true}})
		}
		setTrust(in, c, environment, &patch, report)
	}
	if !placed {
		return patch
	}
	if !server {
		report.Reason = reasons.Injected
	}
	if !exists {
		jsonpatch.Append(&patch, jsonpatch.Volumes, patch.Grown(jsonpatch.Volumes, len(in.whole.Spec.Volumes)), []corev1.Volume{added})
	}
	return patch
}

// publicRoots reports whether the ConfigMap of the namespace has, or is about to have, the public
// roots too, and if not, why.
func (in *input) publicRoots() (has bool, why string) {
	switch {
	case in.choice.Host != "":
		return false, "a static pod mounts no ConfigMap"
	case !in.choice.PublicRoots:
		return false, "no public roots are configured"
	case in.choice.NamespaceSettings.Trust != api.TrustEnv:
		return false, "the Namespace is not annotated " + api.AnnotationTrust + ": " + string(api.TrustEnv)
	}
	return true, ""
}

// withoutKeys returns the pod without the volumes that hold a key, which not every container may
// mount.
func (in *input) withoutKeys() *corev1.Pod {
	out := *in.pod
	out.Spec.Volumes = slices.DeleteFunc(slices.Clone(in.pod.Spec.Volumes), func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.Secret != nil || s.PodCertificate != nil || s.ServiceAccountToken != nil
		})
	})
	return &out
}

// all returns all containers of the pod except its proxy: init containers are clients too.
func (in *input) all() []api.ContainerRef {
	var refs []api.ContainerRef
	for i := range in.pod.Spec.InitContainers {
		if c := &in.pod.Spec.InitContainers[i]; c.Name != "" { // see sidecar.Without
			refs = append(refs, api.ContainerRef{Container: c, Init: true, Index: i})
		}
	}
	for i := range in.pod.Spec.Containers {
		refs = append(refs, api.ContainerRef{Container: &in.pod.Spec.Containers[i], Index: i})
	}
	return refs
}

// trustEnvironment returns the variables that lead to the roots in the directory.
func trustEnvironment(dir string, public bool) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, name := range adding {
		out = append(out, corev1.EnvVar{Name: name, Value: dir + "/" + api.BundleKey})
	}
	if !public {
		return out
	}
	for _, name := range replacing {
		out = append(out, corev1.EnvVar{Name: name, Value: dir + "/" + formats.PublicBundleFile})
	}
	return append(out, corev1.EnvVar{Name: javaOptions, Value: "-Djavax.net.ssl.trustStore=" + javaQuoted(dir+"/"+formats.PublicTruststoreFile) +
		" -Djavax.net.ssl.trustStoreType=PKCS12 -Djavax.net.ssl.trustStorePassword=" + formats.DefaultPassword})
}

// javaQuoted returns the text as one word of JAVA_TOOL_OPTIONS, which is split at spaces outside
// quotes (JVM Tool Interface, "The JAVA_TOOL_OPTIONS Environment Variable").
func javaQuoted(text string) string {
	if !strings.ContainsAny(text, ` '"`) {
		return text
	}
	return `"` + strings.ReplaceAll(text, `"`, `"'"'"`) + `"`
}

// setTrust inserts the variables before the container's own, except those that its owner sets or
// may set.
func setTrust(in *input, c api.ContainerRef, environment []corev1.EnvVar, patch *jsonpatch.Patch, report *Report) {
	withPair := slices.ContainsFunc(in.placed, func(p placement) bool { return p.Init == c.Init && p.Index == c.Index })
	var missing []corev1.EnvVar
	var own, mayBe []string
	for _, v := range environment {
		i := indexEnv(c.Container, v.Name)
		switch {
		case v.Name == api.EnvCAFile && withPair: // it leads to the pair's directory
		case i >= 0 && (c.Env[i].Value != v.Value || c.Env[i].ValueFrom != nil):
			own = append(own, v.Name)
		case i >= 0:
		case mayDefine(c.EnvFrom, v.Name):
			mayBe = append(mayBe, v.Name)
		default:
			missing = append(missing, v)
		}
	}
	for _, n := range []reasons.Note{
		{Reason: reasons.EnvAlreadySet, Containers: []string{c.Name}, Detail: strings.Join(own, ", ")},
		{Reason: reasons.TrustEnvFrom, Containers: []string{c.Name}, Detail: strings.Join(mayBe, ", ")},
	} {
		if n.Detail != "" {
			report.note(n)
		}
	}
	path := jsonpatch.Field(c, "env")
	jsonpatch.Insert(patch, path, patch.Grown(path, len(c.Env)), 0, missing)
}

// mayDefine reports whether the sources may define the variable. Their content is not read.
func mayDefine(sources []corev1.EnvFromSource, name string) bool {
	return slices.ContainsFunc(sources, func(s corev1.EnvFromSource) bool { return strings.HasPrefix(name, s.Prefix) })
}
