package programs

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Table is a set of programs in which each image and each executable occurs once. The
// zero Table has no programs.
type Table struct {
	programs     []Program
	byImage      map[string]int
	byExecutable map[string]int
	spellings    map[string]bool
}

// newTable returns the table of the programs. If several have the same image or executable,
// the last one wins.
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
	if len(image) > maxImage {
		return nil, false
	}
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

// maxImage is a length that no image reference has: its name has at most 255 bytes, its tag 128, and a
// digest is shorter than that.
const maxImage = 1 << 10

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

// ByArguments returns the programs that match the arguments of a command line, without its
// executable; see Program.Arguments.
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

// leastArguments is the number of a program's Arguments that a container must have.
const leastArguments = 2

// isFlag reports whether an argument is the flag, with one dash or two, with or without a
// value.
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

// With returns the table with more programs. A program with the same name as one of t
// replaces it, and takes precedence for the images and executables that it shares with t. It
// returns an error if files of the same name differ, because the containers of a pod share
// them.
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
// a volume, and the API server rejects one with two files of the same name.
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
