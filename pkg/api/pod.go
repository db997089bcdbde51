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

// The modes. Each includes those after it.
const (
	ModeArgs  Mode = "args"  // flags, environment and files
	ModeEnv   Mode = "env"   // environment and files
	ModeMount Mode = "mount" // files
)

// OnRotate is what the rotator may do about a pod that still serves an old
// certificate.
type OnRotate string

// The values of AnnotationOnRotate.
const (
	OnRotateReload  OnRotate = "reload"
	OnRotateRestart OnRotate = "restart"
	OnRotateNone    OnRotate = "none"
)

// PodRequest is what a pod or a pod template asks of the webhook and of the rotator,
// with the defaults filled in.
type PodRequest struct {
	// OptedOut is true if the pod must not be injected.
	OptedOut bool
	// SecretName is the Secret that the pod names itself; empty if the Services
	// decide.
	SecretName string
	// Containers are the container names that the pod lists, in its order and without
	// duplicates; nil if it lists none.
	Containers []string

	Mode Mode
	// ForceArgs is true if Mode is ModeArgs because the pod sets it, not by default.
	ForceArgs bool

	CertFlag, KeyFlag string // with their dashes
	MountPath         string // absolute and clean

	HTTPSProbes bool
	// HTTPSProbesSet is true if the pod sets HTTPSProbes, to true or to false.
	HTTPSProbesSet bool

	OnRotate OnRotate
	Trust    bool
}

// ParsePod returns what the labels and annotations of a pod ask for. Every error is a
// *FieldError. A value that is not understood is an error, not a default: a pod that
// silently serves plaintext is worse than one that is refused.
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
		return r, nil // whatever else it says
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
		return PodRequest{}, &FieldError{AnnotationKeyFlag, r.KeyFlag, "is also the flag of the certificate (" + AnnotationCertFlag + "): must be another flag"}
	}
	return r, nil
}

func (r *PodRequest) parseLabel(labels map[string]string) error {
	switch value, ok := labels[LabelInject]; {
	case !ok, value == InjectEnabled:
	case value == InjectDisabled:
		r.OptedOut = true
	default:
		return &FieldError{"label " + LabelInject, value, `must be "` + InjectDisabled + `" to opt the pod out, or "` + InjectEnabled + `"`}
	}
	return nil
}

// podAnnotation parses one annotation of a pod. parse returns what is wrong and what is
// allowed, or "".
type podAnnotation struct {
	key   string
	parse func(r *PodRequest, value string) (detail string)
}

// podAnnotations are the annotations that a pod may have, in the order in which errors
// are reported.
var podAnnotations = []podAnnotation{
	{AnnotationSecretName, func(r *PodRequest, v string) string { r.SecretName = v; return checkSecretName(v) }},
	{AnnotationContainers, parseContainers},
	{AnnotationMode, func(r *PodRequest, v string) string {
		r.Mode, r.ForceArgs = Mode(v), Mode(v) == ModeArgs
		return oneOf(r.Mode, ModeArgs, ModeEnv, ModeMount)
	}},
	{AnnotationCertFlag, func(r *PodRequest, v string) string { r.CertFlag = v; return checkFlag(v) }},
	{AnnotationKeyFlag, func(r *PodRequest, v string) string { r.KeyFlag = v; return checkFlag(v) }},
	{AnnotationMountPath, func(r *PodRequest, v string) string { r.MountPath = path.Clean(v); return checkMountPath(v) }},
	{AnnotationHTTPSProbes, func(r *PodRequest, v string) string { r.HTTPSProbesSet = true; return setBool(&r.HTTPSProbes, v) }},
	{AnnotationOnRotate, func(r *PodRequest, v string) string {
		r.OnRotate = OnRotate(v)
		return oneOf(r.OnRotate, OnRotateReload, OnRotateRestart, OnRotateNone)
	}},
	{AnnotationTrust, func(r *PodRequest, v string) string { return setBool(&r.Trust, v) }},
}

// UnknownPodAnnotations returns the keys with our prefix that mean nothing on a pod,
// sorted. Most often they are misspelled.
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
		return "not a valid Secret name: " + strings.Join(errs, "; ")
	}
	return ""
}

func parseContainers(r *PodRequest, v string) string {
	for name := range strings.SplitSeq(v, ",") {
		name = strings.TrimSpace(name)
		if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
			return "must be a comma-separated list of container names: " + strings.Join(errs, "; ")
		}
		if !slices.Contains(r.Containers, name) {
			r.Containers = append(r.Containers, name)
		}
	}
	return ""
}

// flagName matches a flag as Go, GNU and most other programs write it. An equals sign
// or a space would make it a flag with a value, and a dollar sign an expansion.
var flagName = regexp.MustCompile(`^--?[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func checkFlag(v string) string {
	if !flagName.MatchString(v) {
		return "not a valid flag name: must be one or two dashes, then letters, digits, dots, dashes or underscores, such as " + DefaultCertFlag
	}
	return ""
}

// reservedPaths are directories that a container needs. A mount would hide what is in
// them.
var reservedPaths = []string{
	"/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/tmp", "/usr", "/usr/bin",
	"/usr/lib", "/usr/local", "/var", "/run/secrets", "/var/run", "/var/run/secrets",
	"/run/secrets/kubernetes.io", "/var/run/secrets/kubernetes.io",
}

// closedPaths are directories in which nothing can be mounted: file systems of the
// kernel, and the read-only mount of the service account's token.
var closedPaths = []string{
	"/dev", "/proc", "/sys",
	"/run/secrets/kubernetes.io/serviceaccount", "/var/run/secrets/kubernetes.io/serviceaccount",
}

func checkMountPath(v string) string {
	const want = "must be the absolute path of a separate directory, such as " + DefaultMountPath
	clean := path.Clean(v)
	switch {
	case !path.IsAbs(v):
		return want
	case len(v) > 512:
		return "is longer than 512 characters: " + want
	case strings.ContainsAny(v, ":$\\") || strings.ContainsFunc(v, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return "contains a colon, a dollar sign, a backslash or a control character, which have a meaning for container runtimes or the kubelet: " + want
	case slices.Contains(reservedPaths, clean):
		return "would hide the container's own " + clean + ": " + want
	}
	for _, closed := range closedPaths {
		if clean == closed || strings.HasPrefix(clean, closed+"/") {
			return "nothing can be mounted in " + closed + ": " + want
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
