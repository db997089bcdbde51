package app

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/servingcert/servingcert/pkg/preview"
)

// manifestFlags are the flags that select manifest files.
type manifestFlags struct {
	files     []string
	recursive bool
	namespace string // of objects that do not set one
}

func (f *manifestFlags) add(fs *pflag.FlagSet) {
	fs.StringArrayVarP(&f.files, "filename", "f", nil, "file, directory (its .yaml, .yml and .json files), or - for standard input; can be repeated")
	fs.BoolVarP(&f.recursive, "recursive", "R", false, "read subdirectories too")
	fs.StringVarP(&f.namespace, "namespace", "n", "", "namespace of objects that do not set one (default \"default\")")
}

// noArguments returns an error if there are arguments: files are given with -f.
func noArguments(args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q: give files with -f", args[0])
	}
	return nil
}

// required returns an error if no file is given.
func (f *manifestFlags) required() error {
	if len(f.files) == 0 {
		return usagef("-f is required: a file, a directory, or - for standard input")
	}
	return nil
}

func (f *manifestFlags) validate() error {
	for _, name := range f.files {
		if strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://") {
			return usagef("-f %q: URLs are not read: must be a file, a directory, or - for standard input (curl -fsSL URL | kubectl servingcert inject -f -)", name)
		}
	}
	if i := slices.Index(f.files, "-"); i >= 0 && slices.Contains(f.files[i+1:], "-") {
		return usagef(`-f "-": standard input can be read only once`)
	}
	if f.namespace != "" {
		if errs := validation.IsDNS1123Label(f.namespace); len(errs) > 0 {
			return usagef("-n %q: not a valid namespace name: %s", f.namespace, strings.Join(errs, "; "))
		}
	}
	return nil
}

// read reads all files, in the given order.
func (f *manifestFlags) read(stdin io.Reader) ([]preview.Document, error) {
	var docs []preview.Document
	total := 0
	for _, name := range f.files {
		files := []string{name}
		if name != "-" {
			var err error
			if files, err = f.expand(name); err != nil {
				return nil, err
			}
		}
		for _, file := range files {
			parsed, size, err := readFile(file, stdin)
			if err != nil {
				return nil, err
			}
			if total += size; total > preview.MaxTotal {
				return nil, fmt.Errorf("%s: all files together are larger than %d MiB", file, preview.MaxTotal>>20)
			}
			docs = append(docs, parsed...)
		}
	}
	if len(docs) == 0 {
		return nil, fmt.Errorf("%s: contains no object", strings.Join(f.files, ", "))
	}
	return docs, nil
}

// readFile returns the documents of a file or of standard input, and its size in bytes.
func readFile(name string, stdin io.Reader) (docs []preview.Document, size int, err error) {
	from := "standard input"
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, 0, err
		}
		defer func() { _ = file.Close() }() // opened for reading
		from, stdin = name, file
	}
	data, err := io.ReadAll(io.LimitReader(stdin, preview.MaxInput+1))
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", from, err)
	}
	docs, err = preview.Parse(from, data)
	return docs, len(data), err
}

// expand returns the manifest files of a directory, sorted, or the file itself.
func (f *manifestFlags) expand(name string) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var files []string
	err = filepath.WalkDir(name, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != name && !f.recursive:
			return filepath.SkipDir
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
			files = append(files, path)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: contains no .yaml, .yml or .json file", name)
	}
	return files, err
}
