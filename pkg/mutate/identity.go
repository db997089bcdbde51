package mutate

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/jsonpatch"
	"github.com/servingcert/servingcert/pkg/mutate/reasons"
	"github.com/servingcert/servingcert/pkg/mutate/volume"
)

const (
	// identityVolume is the name of the volume with the pod's identity. It is separate from that of the
	// pair, which clients do not have, and from that of the proxy, which no program may read.
	identityVolume = "servingcert-identity"
	// identitySuffix is appended to the mount path.
	identitySuffix = "-identity"
)

// asksForIdentity reports whether the pod's programs request the pod's identity.
func (in *input) asksForIdentity() bool { return in.settings.Identity == "true" }

// addIdentity appends the operations for api.AnnotationIdentity: a volume with the pod's client
// certificate, and variables that lead to its files.
func addIdentity(in *input, patch jsonpatch.Patch, report *Report) jsonpatch.Patch {
	if !in.asksForIdentity() {
		return patch
	}
	client, placed := in.ofPrograms().choice.By == choose.ByNothing, false
	leaveOut := func(n reasons.Note) {
		report.note(n)
		if client && !report.Injected() {
			report.Reason = n.Reason
		}
	}
	if why := in.whyNoIdentity(); why != "" {
		leaveOut(reasons.Note{Reason: reasons.NoIdentity, Detail: why})
		return patch
	}
	chosen := in.identified()
	for _, n := range chosen.notes {
		leaveOut(n)
	}
	added := volume.New(in.whole, identityVolume, volume.IdentityFolder(in.choice.TrustDomain), in.modeOfKey(chosen.targets))
	name, exists := volume.FindIdentity(in.pod, in.choice.TrustDomain)
	if !exists {
		name = added.Name
	}
	dir := in.settings.MountPath + identitySuffix
	for _, c := range chosen.targets {
		if reason, detail := volume.Obstacle(in.pod, c.Container, name, dir); reason != "" {
			leaveOut(reasons.Note{Reason: reason, Containers: []string{c.Name}, Detail: detail})
			continue
		}
		placed = true
		report.has(c, partIdentity)
		if !volume.Mounted(c.Container, name, dir) {
			path := jsonpatch.Field(c, "volumeMounts")
			jsonpatch.Append(&patch, path, patch.Grown(path, len(c.VolumeMounts)), []corev1.VolumeMount{{Name: name, MountPath: dir, ReadOnly: true}})
		}
		if in.settings.Mode != api.ModeMount {
			setVariables(c, identityEnvironment(dir, in.choice.TrustDomain), nil, &patch, report)
		}
	}
	if !placed {
		return patch
	}
	if client {
		report.Reason = reasons.Injected
	}
	if !exists {
		jsonpatch.Append(&patch, jsonpatch.Volumes, patch.Grown(jsonpatch.Volumes, len(in.whole.Spec.Volumes)), []corev1.Volume{added})
	}
	return patch
}

// whyNoIdentity returns why the pod can have no identity, and what to do, or "".
func (in *input) whyNoIdentity() string {
	switch {
	case in.choice.Host != "":
		return "a static pod has no ServiceAccount"
	case in.choice.TrustDomain == "":
		return "pods have no identities in this cluster: set --trust-domain of signer and webhook (value identities.trustDomain of the chart)"
	}
	return ""
}

// identified selects the containers that get the identity: those that the annotation lists, or all. Each
// of them may call a server, init containers too, and has the token of the same ServiceAccount.
func (in *input) identified() selection {
	if len(in.settings.Containers) > 0 {
		return byAnnotation(in)
	}
	return selection{targets: in.all()}
}

// identityEnvironment returns the variables that lead to the identity in the directory.
func identityEnvironment(dir, trustDomain string) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: api.EnvIdentityFolder, Value: dir},
		{Name: api.EnvIdentityCertFile, Value: dir + "/" + corev1.TLSCertKey},
		{Name: api.EnvIdentityKeyFile, Value: dir + "/" + corev1.TLSPrivateKeyKey},
		{Name: api.EnvIdentityCAFile, Value: dir + "/" + api.IdentityRoots(trustDomain)},
	}
}
