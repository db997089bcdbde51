package sidecar

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/volume"
)

const (
	// clientsVolume is the volume with the clients that the proxy admits and the roots that verify them.
	// A number is appended if the name is taken.
	clientsVolume = api.ProxyContainer + "-clients"
	// clientsDirectory is where the proxy has it, and clientsFile the file with the clients.
	clientsDirectory = "/etc/servingcert-clients"
	clientsFile      = "clients"
	// identityFile is the file of the pod's identity in rootsDirectory: the key and its certificates.
	identityFile = "identity.pem"
)

// guardFlags are the flags of a proxy that admits only some clients.
var guardFlags = []string{
	api.ProxyFlagClientCA + "=" + clientsDirectory + "/" + api.BundleKey,
	api.ProxyFlagClients + "=" + clientsDirectory + "/" + clientsFile,
}

// guardFlags returns the flags of the wanted proxy.
func (w Wanted) guardFlags() []string {
	if !w.Guarded {
		return nil
	}
	return guardFlags
}

// guards reports whether the proxy admits only some clients exactly if that is wanted.
func (w Wanted) guards(proxy api.Proxy) bool {
	return w.Guarded == slices.Contains(proxy.Args, guardFlags[1])
}

// mountsAt reports whether the proxy has something mounted at the path.
func mountsAt(proxy api.Proxy, path string) bool {
	return slices.ContainsFunc(proxy.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == path })
}

// clients returns the volume of a guarded proxy. The kubelet writes the pod's annotation to a file, and
// writes it again when the annotation changes.
func (w Wanted) clients() corev1.Volume {
	annotation := &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['" + api.AnnotationAdmits + "']"}
	return volume.New(w.Pod, clientsVolume, []corev1.VolumeProjection{
		volume.ClientRoots(api.BundleKey),
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: clientsFile, FieldRef: annotation}}}},
	}, volume.ModeAll)
}

func clientsMount(name string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: name, MountPath: clientsDirectory, ReadOnly: true}
}
