package programs

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/servingcert/servingcert/pkg/api"
)

// Program is an entry: how a program takes a certificate. In flags, values, contents and
// in None these stand for what is known only when a pod is created:
//
//	{cert} {key} {ca}  the files tls.crt, tls.key and ca.crt
//	{combined}         one file with the key and then the chain
//	{dir}              the directory of the files
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
	// PrivateKey is true if the program refuses a key file that others can read.
	PrivateKey bool `yaml:"privateKey"`
	// DropsRoot is true if the images change to another user if they start as root, so that
	// a key that root alone can read is of no use.
	DropsRoot bool `yaml:"dropsRoot"`

	// None says what a person has to do, if neither flags nor variables can do it.
	None string `yaml:"none"`

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

// Table is a set of programs in which each image and each executable occurs once. The
// zero Table has no programs.
type Table struct {
	programs     []Program
	byImage      map[string]int
	byExecutable map[string]int
	spellings    map[string]bool
}

// newTable returns the table of the programs. Later programs win where several have an
// image or an executable.
func newTable(list []Program) Table {
	t := Table{programs: list, byImage: map[string]int{}, byExecutable: map[string]int{}, spellings: spellings(list)}
	for i := range list {
		for _, image := range list[i].Images {
			t.byImage[image] = i
		}
		for _, executable := range list[i].Executables {
			t.byExecutable[executable] = i
		}
	}
	return t
}

// All returns the programs in the order of the table. The caller must not change them.
func (t Table) All() []Program { return t.programs }

// ByImage returns the program of an image reference such as
// quay.io/prometheus/prometheus:v3.5.0@sha256:…, by the last two parts of the repository's
// name or by the last.
func (t Table) ByImage(image string) (*Program, bool) {
	parts := strings.Split(Untagged(image), "/")
	last := len(parts) - 1
	if last == 0 || last == 1 && (parts[0] == "docker.io" || parts[0] == "index.docker.io") {
		if p, ok := t.at(t.byImage, "library/"+parts[last]); ok {
			return p, true
		}
	}
	if last > 0 {
		if p, ok := t.at(t.byImage, parts[last-1]+"/"+parts[last]); ok {
			return p, true
		}
	}
	return t.at(t.byImage, parts[last])
}

// ByExecutable returns the program that an executable, such as /bin/prometheus, starts.
func (t Table) ByExecutable(executable string) (*Program, bool) {
	return t.at(t.byExecutable, path.Base(executable))
}

func (t Table) at(index map[string]int, key string) (*Program, bool) {
	i, ok := index[key]
	if !ok {
		return nil, false
	}
	return &t.programs[i], true
}

// ByArguments returns the programs that the arguments of a command line, without its
// executable, are those of; see Program.Arguments.
func (t Table) ByArguments(args []string) []*Program {
	var out []*Program
	for i := range t.programs {
		p, n := &t.programs[i], 0
		for _, name := range p.Arguments {
			if slices.ContainsFunc(args, func(a string) bool { return isFlag(a, name) }) {
				n++
			}
		}
		if n >= leastArguments {
			out = append(out, p)
		}
	}
	return out
}

// leastArguments is how many of a program's Arguments a container must have.
const leastArguments = 2

// isFlag reports whether an argument is the flag, with one dash or two, and with a value or
// not.
func isFlag(arg, flag string) bool {
	name, _, _ := strings.Cut(arg, "=")
	return strings.HasPrefix(name, "-") && Undashed(name) == Undashed(flag)
}

// Untagged returns an image reference without tag and digest.
func Untagged(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndexByte(image, ':'); colon > strings.LastIndexByte(image, '/') {
		image = image[:colon]
	}
	return image
}

// With returns the table with more programs. One with the name of a program of t replaces
// it, and one with an image or an executable of a program of t takes it over. It is an error
// if files of the same name differ, because the containers of a pod share them.
func (t Table) With(more Table) (Table, error) {
	var list []Program
	for _, p := range t.programs {
		if !slices.ContainsFunc(more.programs, func(m Program) bool { return m.Name == p.Name }) {
			list = append(list, p)
		}
	}
	list = append(list, more.programs...)
	if err := sameFiles(list); err != nil {
		return Table{}, err
	}
	return newTable(list), nil
}

// sameFiles returns an error if files of the same name differ: the containers of a pod share
// a volume, and the API server refuses one with two files of the same name.
func sameFiles(list []Program) error {
	type file struct{ program, field, content string }
	first := map[string]file{}
	for i := range list {
		p := &list[i]
		for _, f := range []struct {
			field    string
			contents map[string]string
		}{{"files", p.Files}, {"config", p.Config}} {
			for _, name := range slices.Sorted(maps.Keys(f.contents)) {
				this := file{p.Name, f.field, f.contents[name]}
				other, ok := first[name]
				if ok && (other.field != this.field || other.content != this.content) {
					return fmt.Errorf("program %q: %s: %q differs from that of program %q: must be the same, or have another name", p.Name, f.field, name, other.program)
				}
				if !ok {
					first[name] = this
				}
			}
		}
	}
	return nil
}
