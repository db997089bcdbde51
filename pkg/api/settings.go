package api

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Mode is what the webhook adds to a pod.
type Mode string

// The modes. Each includes those below it.
const (
	ModeArgs  Mode = "args"  // flags, environment and files; see UnknownPrograms
	ModeEnv   Mode = "env"   // environment and files
	ModeMount Mode = "mount" // files
)

// UnknownPrograms is what containers of unknown programs get in ModeArgs if no flags are
// requested explicitly.
type UnknownPrograms string

// The values of UnknownPrograms.
const (
	UnknownProgramsFiles UnknownPrograms = "files" // files and environment
	UnknownProgramsFlags UnknownPrograms = "flags" // the two flags too, which most programs do not have
)

// CheckUnknownPrograms returns what is wrong with an UnknownPrograms and what is allowed, or "".
func CheckUnknownPrograms(u UnknownPrograms) string {
	return oneOf(u, UnknownProgramsFiles, UnknownProgramsFlags)
}

// HTTPSProbes selects which HTTP probes and hooks on the TLS port use HTTPS.
type HTTPSProbes string

// The values of AnnotationHTTPSProbes.
const (
	HTTPSProbesAuto  HTTPSProbes = "auto"  // those of containers that the webhook makes serve TLS
	HTTPSProbesTrue  HTTPSProbes = "true"  // all
	HTTPSProbesFalse HTTPSProbes = "false" // none
)

// Trust is what a pod gets as a client, in addition to what it gets as a server.
type Trust string

// The values of AnnotationTrust.
const (
	TrustFalse Trust = "false" // nothing
	TrustTrue  Trust = "true"  // ca.crt, and EnvCAFile if it gets no certificate
	// TrustEnv: ca.crt and the variables that runtimes read, in every container including init
	// containers.
	TrustEnv Trust = "env"
)

// Settings control how pods are injected. They are set on the pod, on the Service for the
// pods that get its certificate, and on the namespace for all its pods; the first of these
// that sets a field decides it. A zero field is not set.
type Settings struct {
	// Containers are the listed container names, in order and without duplicates.
	Containers        []string
	Mode              Mode
	CertFlag, KeyFlag string // with their dashes
	MountPath         string // absolute and clean
	HTTPSProbes       HTTPSProbes
	// ProxyProtocol are the ports of AnnotationProxyProtocol, in order and without
	// duplicates.
	ProxyProtocol []int32
	// ProxyResources replace the proxy's default resources.
	ProxyResources corev1.ResourceRequirements
	Trust          Trust
	// Connect are the entries of AnnotationConnect, in order and without duplicates: nil if it is not set,
	// and otherwise empty for ConnectNone.
	Connect []Connect
	// Identity is "true" or "false", and empty if it is not set.
	Identity string
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings {
	return Settings{
		Mode: ModeArgs, CertFlag: DefaultCertFlag, KeyFlag: DefaultKeyFlag,
		MountPath: DefaultMountPath, HTTPSProbes: HTTPSProbesAuto, Trust: TrustFalse,
	}
}

// Or returns the settings, with those of other for fields that s does not set.
func (s Settings) Or(other Settings) Settings {
	if len(s.Containers) == 0 {
		s.Containers = other.Containers
	}
	s.Mode = cmp.Or(s.Mode, other.Mode)
	s.CertFlag, s.KeyFlag = cmp.Or(s.CertFlag, other.CertFlag), cmp.Or(s.KeyFlag, other.KeyFlag)
	s.MountPath = cmp.Or(s.MountPath, other.MountPath)
	s.HTTPSProbes = cmp.Or(s.HTTPSProbes, other.HTTPSProbes)
	if len(s.ProxyProtocol) == 0 {
		s.ProxyProtocol = other.ProxyProtocol
	}
	if len(s.ProxyResources.Requests)+len(s.ProxyResources.Limits) == 0 {
		s.ProxyResources = other.ProxyResources
	}
	s.Trust = cmp.Or(s.Trust, other.Trust)
	s.Identity = cmp.Or(s.Identity, other.Identity)
	if s.Connect == nil {
		s.Connect = other.Connect
	}
	return s
}

// NamesFlags reports whether the settings set the name of a flag.
func (s Settings) NamesFlags() bool { return s.CertFlag != "" || s.KeyFlag != "" }

// check returns a *FieldError if the settings contradict each other.
func (s Settings) check() error {
	all := s.Or(DefaultSettings())
	if all.CertFlag == all.KeyFlag {
		return &FieldError{AnnotationKeyFlag, all.KeyFlag, "is also the flag of the certificate (" + AnnotationCertFlag + "): must be another flag"}
	}
	return nil
}

// setting reads one annotation. read returns what else is wrong with a value that has the shape of
// the annotation, and what is allowed, or "".
type setting struct {
	key  string
	read func(s *Settings, value string) (detail string)
}

// parse checks and reads a value. It returns what is wrong and what is allowed, or "".
func (s setting) parse(into *Settings, value string) (detail string) {
	if detail := checkShape(s.key, value); detail != "" {
		return detail
	}
	return s.read(into, value)
}

// settings lists all settings, in the order in which errors are reported.
var settings = []setting{
	{AnnotationContainers, parseContainers},
	{AnnotationMode, func(s *Settings, v string) string { s.Mode = Mode(v); return "" }},
	{AnnotationCertFlag, func(s *Settings, v string) string { s.CertFlag = v; return "" }},
	{AnnotationKeyFlag, func(s *Settings, v string) string { s.KeyFlag = v; return "" }},
	{AnnotationMountPath, func(s *Settings, v string) string { s.MountPath = path.Clean(v); return "" }},
	{AnnotationHTTPSProbes, func(s *Settings, v string) string { s.HTTPSProbes = HTTPSProbes(v); return "" }},
	{AnnotationProxyProtocol, parseProxyProtocol},
	{AnnotationProxyResources, parseProxyResources},
	{AnnotationTrust, func(s *Settings, v string) string { s.Trust = Trust(v); return "" }},
	{AnnotationConnect, parseConnect},
	{AnnotationIdentity, func(s *Settings, v string) string { s.Identity = v; return "" }},
}

// ParseSettings returns the settings in the annotations of a Service or a namespace. A
// setting that is not valid is not set, and returned in errs, each a *FieldError: whoever
// creates a pod did not write it and often cannot correct it.
func ParseSettings(annotations map[string]string) (s Settings, errs []error) {
	for _, setting := range settings {
		value, ok := annotations[setting.key]
		if !ok {
			continue
		}
		said := s
		if detail := setting.parse(&said, value); detail != "" {
			errs = append(errs, &FieldError{setting.key, value, detail})
			continue
		}
		s = said
	}
	if err := s.check(); err != nil {
		s.CertFlag, s.KeyFlag = "", ""
		errs = append(errs, err)
	}
	return s, errs
}

// CheckMode returns what is wrong with a mode and what is allowed, or "".
func CheckMode(m Mode) string { return checkShape(AnnotationMode, string(m)) }

func parseContainers(s *Settings, v string) string {
	for _, name := range splitNames(v) {
		if !slices.Contains(s.Containers, name) {
			s.Containers = append(s.Containers, name)
		}
	}
	return ""
}

// reservedPaths are directories that a container needs. A mount would hide their content.
var reservedPaths = []string{
	"/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/tmp", "/usr", "/usr/bin",
	"/usr/lib", "/usr/local", "/var", "/run/secrets", "/var/run", "/var/run/secrets",
	"/run/secrets/kubernetes.io", "/var/run/secrets/kubernetes.io",
}

// closedPaths are directories in which nothing can be mounted: file systems of the
// kernel, and the read-only mount of the ServiceAccount token.
var closedPaths = []string{
	"/dev", "/proc", "/sys",
	"/run/secrets/kubernetes.io/serviceaccount", "/var/run/secrets/kubernetes.io/serviceaccount",
}

// maxMountPath is the largest length of a mount path. The kernel allows 4096 bytes for a
// whole path, including file names.
const maxMountPath = 512

// checkMountPath returns what is wrong with a mount path and what is allowed, or "".
func checkMountPath(v string) string {
	const want = "must be the absolute path of a separate directory, such as " + DefaultMountPath
	if len(v) > maxMountPath {
		return fmt.Sprintf("is longer than %d characters: %s", maxMountPath, want)
	}
	clean := path.Clean(v)
	switch {
	case !path.IsAbs(v):
		return want
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
