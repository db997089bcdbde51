package mutate

import (
	"maps"
	"slices"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
	"github.com/servingcert/servingcert/pkg/mutate/volume"
)

// needsOf returns what the programs need.
func (in *input) needsOf(list []*programs.Program) volume.Files {
	n := volume.Files{Formats: in.request.Formats & in.choice.Formats}
	if len(list) > 0 {
		n.Files, n.Config = map[string]string{}, map[string]string{}
	}
	for _, p := range list {
		maps.Copy(n.Files, p.Files)
		for name, content := range p.Config {
			n.Config[name] = in.replace(content)
		}
		n.Formats |= p.Formats()
	}
	return n
}

// hasRoom reports whether the pod's annotations have room for the configuration files of all
// programs that may get the certificate. The API server rejects larger annotations.
func (in *input) hasRoom() bool {
	var list []*programs.Program
	for _, c := range in.targets {
		if p := in.programOf(c.Container); p != nil && !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	added := map[string]string{}
	for name, content := range in.needsOf(list).Config {
		added[api.AnnotationFilePrefix+name] = content
	}
	return sizeWith(in.pod.Annotations, added) <= maxAnnotations
}

// volumeName is the name of the volume. If it is taken, a number is appended.
const volumeName = "servingcert"

// contents returns the contents of the volume for the pod's programs.
func (in *input) contents(further volume.Files) volume.Contents {
	c := volume.Contents{Issued: in.choice.Issued, Trust: in.asksForBundle(), TrustBundle: in.choice.TrustBundle, Files: further}
	if in.choice.By != choose.ByNothing {
		c.Pair = in.choice.Pair()
	}
	return c
}

// modeOfFiles returns the mode of the files in the volume.
func (in *input) modeOfFiles() int32 {
	if in.choice.By != choose.ByNothing {
		return in.modeOfKey(in.targets)
	}
	return volume.ModeAll
}

// modeOfKey returns the mode of files with a key that the containers read.
func (in *input) modeOfKey(readers []api.ContainerRef) int32 {
	if in.groupCanRead(readers) {
		return volume.ModeGroup
	}
	return volume.ModeAll
}

// groupCanRead reports whether it is enough that root and the pod's group can read the files.
// The kubelet assigns the files to the fsGroup if there is one. A program that changes to
// another user cannot read root's files.
func (in *input) groupCanRead(readers []api.ContainerRef) bool {
	podContext := in.pod.Spec.SecurityContext
	if podContext != nil && podContext.FSGroup != nil {
		return true
	}
	return !slices.ContainsFunc(readers, func(c api.ContainerRef) bool {
		user := (*int64)(nil)
		if podContext != nil {
			user = podContext.RunAsUser
		}
		if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
			user = c.SecurityContext.RunAsUser
		}
		if user == nil || *user != 0 {
			return true
		}
		p := in.programOf(c.Container)
		return p != nil && p.DropsRoot
	})
}
