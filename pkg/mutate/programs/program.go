package programs

import (
	"maps"
	"slices"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/formats"
	"github.com/servingcert/servingcert/pkg/starttls"
)

// Program is an entry: how a program takes a certificate. In flags, values, contents and
// in None these stand for what is known only when a pod is created:
//
//	{cert} {key} {ca}  the files tls.crt, tls.key and ca.crt
//	{combined}         one file with the key and then the chain, and so for other formats
//	{dir}              the directory of the files
//	{password}         that of {keystore}
type Program struct {
	Name string `yaml:"program"`
	// Images are the last parts of the names of image repositories, such as
	// "prometheus" of quay.io/prometheus/prometheus:v3, or the last two. The official
	// images of Docker Hub have "library" before their name: "library/registry" is
	// registry:2 too, and not the registry of somebody else.
	Images []string `yaml:"images"`
	// Since is the lowest version that takes its certificate in this way, such as 2.24, as
	// the tags of the images have it; empty if it is not known or all do.
	Since string `yaml:"since"`
	// Executables are base names of what a command line starts.
	Executables []string `yaml:"executables"`

	// Arguments are flags of programs that one tool has made, which have neither image nor
	// executable in common. A container that has two of them, and starts what is called
	// as IsGeneral says or what its image starts, runs one if a Service leads to one of
	// Ports, and Moves is true.
	Arguments []string `yaml:"arguments"`

	// Mount is a further directory for the files, in which the program looks for tls.crt and
	// tls.key without being told.
	Mount string `yaml:"mount"`
	// Flags are elements of the command line, added in this order.
	Flags []string `yaml:"flags"`
	// First is true if the flags must come before all other arguments.
	First bool `yaml:"first"`
	// Bare is true if the images have an ENTRYPOINT and no CMD, so that arguments given
	// to a container that has none replace nothing.
	Bare bool       `yaml:"bare"`
	Env  []Variable `yaml:"env"`
	// Config are small configuration files beside the certificate, by file name.
	Config map[string]string `yaml:"config"`
	// Files are further names of the certificate's files: a key of the Secret, or
	// ca.crt, by file name.
	Files map[string]string `yaml:"files"`
	// Own are further flags and variables with which the owner of a container
	// configures TLS himself, or which do not go together with it, and beginnings of
	// arguments such as http:// (see IsPrefix).
	Own []string `yaml:"own"`
	// Unless are flags and variables with which the program is given nothing, and what a
	// person has to do then.
	Unless map[string]string `yaml:"unless"`
	// Ports are the ports that serve TLS if they are others than without TLS.
	Ports []int32 `yaml:"ports"`
	// Moves is true if it then listens on Ports only, so that a Service of another port
	// would lose it.
	Moves bool `yaml:"moves"`
	// Plain is true if clients without TLS are still accepted on the same port.
	Plain bool `yaml:"plain"`
	// AlsoPorts are ports, by their usual numbers, that serve TLS too, whichever port a
	// Service uses, so that HTTP probes on them need HTTPS.
	AlsoPorts []int32 `yaml:"alsoPorts"`
	// StartTLS says what comes before TLS at ports, by their usual numbers, where something does.
	StartTLS map[int32]starttls.Protocol `yaml:"startTLS"`
	// PrivateKey is true if the program refuses a key file that others can read.
	PrivateKey bool `yaml:"privateKey"`
	// DropsRoot is true if the images change to another user if they start as root, so that
	// a key that root alone can read is of no use.
	DropsRoot bool `yaml:"dropsRoot"`

	// None says what a person has to do, if neither flags nor variables can do it.
	None string `yaml:"none"`

	// TLSPorts are the ports, by their usual numbers, that serve TLS with a certificate of the
	// program's own, unless it is told one of the flags and variables in TLSOff.
	TLSPorts []int32  `yaml:"tlsPorts"`
	TLSOff   []string `yaml:"tlsOff"`

	// Reload is how the program takes up a renewed certificate, and ReloadHow by
	// which signal or request.
	Reload    Reload `yaml:"reload"`
	ReloadHow string `yaml:"reloadHow"`

	// Versions are those on which all this was read, in Sources.
	Versions string   `yaml:"versions"`
	Sources  []string `yaml:"sources"`
	// Note is what the owner should know besides.
	Note string `yaml:"note"`
}

// Variable is an environment variable.
type Variable struct {
	Name  string `yaml:"name"`
	Value string `yaml:"value"`
}

// Reload is how a program takes up a renewed certificate.
type Reload string

// The ways to reload.
const (
	ReloadItself  Reload = "itself"  // it reads the files again on its own
	ReloadSignal  Reload = "signal"  // when it gets a signal
	ReloadRequest Reload = "request" // when it is asked over its API
	ReloadRestart Reload = "restart" // only when it is started again
)

// IsPrefix reports whether an element of Own is the beginning of an argument.
func IsPrefix(own string) bool { return strings.Contains(own, "://") }

// Takes reports whether the program can be told by flags or variables, or need not be told.
func (p *Program) Takes() bool { return len(p.Flags)+len(p.Env) > 0 || p.Mount != "" }

// RenamesPair reports whether the certificate or the key is to have another name, or a
// second one.
func (p *Program) RenamesPair() bool {
	for _, key := range p.Files {
		if key != api.BundleKey {
			return true
		}
	}
	return false
}

// Uses reports whether a flag, a variable or a configuration file contains the
// placeholder, such as "{combined}".
func (p *Program) Uses(placeholder string) bool {
	for text := range p.texts() {
		if strings.Contains(text, placeholder) {
			return true
		}
	}
	return false
}

// Formats returns the formats of which a flag, a variable or a configuration file has the
// placeholder.
func (p *Program) Formats() (used formats.Set) {
	for f := range formats.Asked().Formats() {
		if p.Uses(Placeholder(f)) {
			used |= formats.Of(f)
		}
	}
	return used
}

// NoneFormats returns the formats of which None has the placeholder.
func (p *Program) NoneFormats() (named formats.Set) {
	for f := range formats.Asked().Formats() {
		if strings.Contains(p.None, Placeholder(f)) {
			named |= formats.Of(f)
		}
	}
	return named
}

// texts yields all texts in which placeholders are replaced.
func (p *Program) texts() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, f := range p.Flags {
			if !yield(f) {
				return
			}
		}
		for _, v := range p.Env {
			if !yield(v.Value) {
				return
			}
		}
		for _, name := range slices.Sorted(maps.Keys(p.Config)) {
			if !yield(p.Config[name]) {
				return
			}
		}
	}
}
