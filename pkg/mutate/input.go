package mutate

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/mutate/choose"
	"github.com/servingcert/servingcert/pkg/mutate/plaintext"
	"github.com/servingcert/servingcert/pkg/mutate/programs"
	"github.com/servingcert/servingcert/pkg/mutate/sidecar"
	"github.com/servingcert/servingcert/pkg/mutate/volume"
)

// input is the input of one decision.
type input struct {
	// pod is the pod without its proxy, and whole the pod with it; see sidecar.Without.
	pod     *corev1.Pod
	whole   *corev1.Pod
	request api.PodRequest
	choice  choose.Choice
	// settings are the effective settings of the pod.
	settings api.Settings
	// named is true if the name of a flag is set: then the program does not decide.
	named bool
	// asked is true if flags were requested explicitly, so that they are not only an
	// attempt.
	asked bool
	// insists is true if the pod or its Service requested them: then they replace the
	// arguments of an image.
	insists bool
	// volumes are the names of the volumes that already have the files, and volume is
	// the one that is mounted: one of them, or a new one.
	volumes []string
	volume  string
	// targets are the containers selected for the files, and placed those that get them.
	targets []api.ContainerRef
	placed  []placement
	// running are the containers that run as long as the pod does.
	running []api.ContainerRef
	env     []corev1.EnvVar // see environment
	// programs are those of the containers for which programOf was called, and calls are those
	// of all, once they were looked for.
	programs map[*corev1.Container]*programs.Program
	calls    []plaintext.Call
}

func newInput(pod *corev1.Pod, request api.PodRequest, choice choose.Choice) *input {
	said := request.Or(choice.ServiceSettings).Or(choice.NamespaceSettings)
	in := &input{pod: sidecar.Without(pod), whole: pod, request: request, choice: choice, programs: map[*corev1.Container]*programs.Program{}}
	in.running = api.RunningContainers(in.pod)
	in.named = said.NamesFlags()
	in.asked = said.Mode == api.ModeArgs || in.named
	in.insists = request.Or(choice.ServiceSettings).Mode == api.ModeArgs
	in.settings = said.Or(api.Settings{Mode: choice.DefaultMode}).Or(api.DefaultSettings())
	if in.settings.CertFlag == in.settings.KeyFlag { // set on different levels
		in.settings.CertFlag, in.settings.KeyFlag = api.DefaultCertFlag, api.DefaultKeyFlag
	}
	return in
}

// table returns the known programs.
func (in *input) table() programs.Table {
	if in.choice.Programs != nil {
		return *in.choice.Programs
	}
	return programs.Builtin()
}

// programOf returns the program that the container runs, or nil if it is unknown.
func (in *input) programOf(c *corev1.Container) *programs.Program {
	if p, known := in.programs[c]; known {
		return p
	}
	in.programs[c] = in.table().Of(c, func(ports []int32) bool {
		return slices.ContainsFunc(in.choice.Ports, func(target intstr.IntOrString) bool {
			n, ok := portNumber(c, target)
			return ok && slices.Contains(ports, n)
		})
	})
	return in.programs[c]
}

// guesses reports whether containers of unknown programs get flags that were not requested.
func (in *input) guesses() bool { return in.choice.UnknownPrograms == api.UnknownProgramsFlags }

// file returns the path of a file of the volume in a container.
func (in *input) file(name string) string {
	if in.choice.Host != "" {
		name = volume.HostCurrent + "/" + name
	}
	if in.settings.MountPath == "/" {
		return "/" + name
	}
	return in.settings.MountPath + "/" + name
}

// replace returns a text of a program's entry with the placeholders replaced. The
// replacements are not replaced again: a mount path may look like a placeholder.
func (in *input) replace(text string) string {
	var out strings.Builder
	for {
		open := strings.IndexByte(text, '{')
		if open < 0 {
			break
		}
		out.WriteString(text[:open])
		text = text[open:]
		end := strings.IndexByte(text, '}') + 1
		value, ok := in.placeholder(text[:end])
		if !ok {
			value, end = "{", 1
		}
		out.WriteString(value)
		text = text[end:]
	}
	if out.Len() == 0 {
		return text
	}
	return out.String() + text
}

// placeholder returns the value of a placeholder in the pod, or false if the text is not
// one.
func (in *input) placeholder(text string) (value string, ok bool) {
	switch text {
	case programs.Cert:
		return in.file(corev1.TLSCertKey), true
	case programs.Key:
		return in.file(corev1.TLSPrivateKeyKey), true
	case programs.CA:
		return in.file(api.BundleKey), true
	case programs.Dir:
		return path.Dir(in.file(corev1.TLSCertKey)), true
	case programs.Password:
		return in.choice.Password, true
	}
	for f := range formats.Asked().Formats() {
		if text == programs.Placeholder(f) {
			return in.file(f.Files[0]), true
		}
	}
	return "", false
}
