package api

import (
	"path"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Mode is how far the webhook goes for a pod.
type Mode string

// The modes, each holding the one after it.
const (
	ModeArgs  Mode = "args"  // flags, environment and files
	ModeEnv   Mode = "env"   // environment and files
	ModeMount Mode = "mount" // files
)

// OnRotate is what the rotator may do for a pod that still serves the old
// certificate.
type OnRotate string

// What AnnotationOnRotate may say.
const (
	OnRotateReload  OnRotate = "reload"
	OnRotateRestart OnRotate = "restart"
	OnRotateNone    OnRotate = "none"
)

// PodRequest is what a pod (or a pod template) asks of the webhook and of the
// rotator, with the defaults filled in.
type PodRequest struct {
	// OptedOut: the pod wants to be left alone.
	OptedOut bool
	// SecretName is the Secret that the pod names itself; empty where it leaves
	// the choice to the Services.
	SecretName string
	// Containers are the names that the pod lists, in its order and without
	// duplicates; nil where it is silent.
	Containers []string

	Mode Mode
	// Insists: the mode is ModeArgs because the pod says so, not by default.
	Insists bool

	CertFlag, KeyFlag string // with their dashes
	MountPath         string // absolute and clean

	HTTPSProbes bool
	// ProbesSaid: the pod says what it wants of HTTPSProbes.
	ProbesSaid bool

	OnRotate OnRotate
	Trust    bool
}

// ParsePod returns what the labels and annotations of a pod ask for. Every
// error is a *FieldError. A value that is not understood is an error and never
// a default: a pod that silently serves plaintext is worse than one refused.
func ParsePod(meta *metav1.ObjectMeta) (PodRequest, error) {
	r := PodRequest{
		Mode:      ModeArgs,
		CertFlag:  DefaultCertFlag,
		KeyFlag:   DefaultKeyFlag,
		MountPath: DefaultMountPath,
		OnRotate:  OnRotateReload,
	}
	if err := r.parseLabel(meta.Labels); err != nil {
		return PodRequest{}, err
	}
	if r.OptedOut {
		return r, nil // left alone, whatever else it says
	}
	for _, p := range podAnnotations {
		value, ok := meta.Annotations[p.key]
		if !ok {
			continue
		}
		if detail := p.parse(&r, value); detail != "" {
			return PodRequest{}, &FieldError{p.key, value, detail}
		}
	}
	if r.CertFlag == r.KeyFlag {
		return PodRequest{}, &FieldError{AnnotationKeyFlag, r.KeyFlag, "is the flag of the certificate too (" + AnnotationCertFlag + "); must be another"}
	}
	return r, nil
}

func (r *PodRequest) parseLabel(labels map[string]string) error {
	switch value, ok := labels[LabelInject]; {
	case !ok, value == InjectEnabled:
	case value == InjectDisabled:
		r.OptedOut = true
	default:
		return &FieldError{"label " + LabelInject, value, `must be "` + InjectDisabled + `" on a pod that is to be left alone`}
	}
	return nil
}

// podAnnotation reads one annotation of a pod. parse returns what is wrong and
// what is allowed, or nothing.
type podAnnotation struct {
	key   string
	parse func(r *PodRequest, value string) (detail string)
}

// podAnnotations are those that a pod may carry, in the order in which a
// mistake is reported.
var podAnnotations = []podAnnotation{
	{AnnotationSecretName, func(r *PodRequest, v string) string { r.SecretName = v; return checkSecretName(v) }},
	{AnnotationContainers, parseContainers},
	{AnnotationMode, func(r *PodRequest, v string) string {
		r.Mode, r.Insists = Mode(v), Mode(v) == ModeArgs
		return oneOf(r.Mode, ModeArgs, ModeEnv, ModeMount)
	}},
	{AnnotationCertFlag, func(r *PodRequest, v string) string { r.CertFlag = v; return checkFlag(v) }},
	{AnnotationKeyFlag, func(r *PodRequest, v string) string { r.KeyFlag = v; return checkFlag(v) }},
	{AnnotationMountPath, func(r *PodRequest, v string) string { r.MountPath = path.Clean(v); return checkMountPath(v) }},
	{AnnotationHTTPSProbes, func(r *PodRequest, v string) string { r.ProbesSaid = true; return setBool(&r.HTTPSProbes, v) }},
	{AnnotationOnRotate, func(r *PodRequest, v string) string {
		r.OnRotate = OnRotate(v)
		return oneOf(r.OnRotate, OnRotateReload, OnRotateRestart, OnRotateNone)
	}},
	{AnnotationTrust, func(r *PodRequest, v string) string { return setBool(&r.Trust, v) }},
}

// UnknownPodAnnotations returns the keys of ours among the annotations of a pod
// that mean nothing there, sorted: most often they are misspelt.
func UnknownPodAnnotations(annotations map[string]string) []string {
	var unknown []string
	for key := range annotations {
		if !strings.HasPrefix(key, Domain+"/") || key == AnnotationStatus {
			continue
		}
		if !slices.ContainsFunc(podAnnotations, func(p podAnnotation) bool { return p.key == key }) {
			unknown = append(unknown, key)
		}
	}
	slices.Sort(unknown)
	return unknown
}

func checkSecretName(v string) string {
	if errs := validation.IsDNS1123Subdomain(v); len(errs) > 0 {
		return "no name of a Secret: " + strings.Join(errs, "; ")
	}
	return ""
}

func parseContainers(r *PodRequest, v string) string {
	for name := range strings.SplitSeq(v, ",") {
		name = strings.TrimSpace(name)
		if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
			return "must be names of containers separated by commas: " + strings.Join(errs, "; ")
		}
		if !slices.Contains(r.Containers, name) {
			r.Containers = append(r.Containers, name)
		}
	}
	return ""
}

// flagName is a flag as Go, GNU and most others write it. An equals sign or a
// space would make it a flag with a value, a dollar sign an expansion.
var flagName = regexp.MustCompile(`^--?[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func checkFlag(v string) string {
	if !flagName.MatchString(v) {
		return "no name of a flag: must be one or two dashes and then letters, digits, dots, dashes or underscores, such as " + DefaultCertFlag
	}
	return ""
}

// reservedPaths are directories that a container cannot work without. A mount
// would hide what is in them.
var reservedPaths = []string{
	"/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/tmp", "/usr", "/usr/bin",
	"/usr/lib", "/usr/local", "/var", "/run/secrets", "/var/run", "/var/run/secrets",
	"/run/secrets/kubernetes.io", "/var/run/secrets/kubernetes.io",
}

// closedPaths are directories that nothing can be mounted in: file systems of
// the kernel, and the read-only mount of the service account's token.
var closedPaths = []string{
	"/dev", "/proc", "/sys",
	"/run/secrets/kubernetes.io/serviceaccount", "/var/run/secrets/kubernetes.io/serviceaccount",
}

func checkMountPath(v string) string {
	const want = "must be an absolute path of a directory of its own, such as " + DefaultMountPath
	clean := path.Clean(v)
	switch {
	case !path.IsAbs(v):
		return want
	case len(v) > 512:
		return "longer than 512 characters; " + want
	case strings.ContainsAny(v, ":$\\") || strings.ContainsFunc(v, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return "holds a colon, a dollar sign, a backslash or a control character, which container runtimes or the kubelet read as something else; " + want
	case slices.Contains(reservedPaths, clean):
		return "would hide the container's own " + clean + "; " + want
	}
	for _, closed := range closedPaths {
		if clean == closed || strings.HasPrefix(clean, closed+"/") {
			return "nothing can be mounted in " + closed + "; " + want
		}
	}
	return ""
}

func setBool(b *bool, v string) string {
	var err error
	if *b, err = parseBool(v); err != nil {
		return err.Error()
	}
	return ""
}

func oneOf[T ~string](v T, allowed ...T) string {
	if slices.Contains(allowed, v) {
		return ""
	}
	quoted := make([]string, len(allowed))
	for i, a := range allowed {
		quoted[i] = `"` + string(a) + `"`
	}
	last := len(quoted) - 1
	return "must be " + strings.Join(quoted[:last], ", ") + " or " + quoted[last]
}
