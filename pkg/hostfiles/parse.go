package hostfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Limits of the configuration file.
const (
	MaxConfig    = 64 << 10
	MaxStores    = 32
	maxNames     = 100
	maxArguments = 32
)

// Defaults and bounds of durations.
const (
	defaultActionTimeout = 30 * time.Second
	maxActionTimeout     = 10 * time.Minute
	defaultCheckTimeout  = 2 * time.Minute
	maxCheckTimeout      = time.Hour
	maxWindow            = 24 * time.Hour
)

// Signals are the allowed signals, without the prefix SIG.
var Signals = []string{"HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "WINCH"}

var (
	nameOfStore = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)
	nameOfUnit  = regexp.MustCompile(`^[A-Za-z0-9:_.\\@-]{1,240}\.(service|socket|target)$`)
	nameOfHost  = regexp.MustCompile(`^(\*\.)?[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9])?$`)
)

// Parse reads a configuration file. from is the source directory of stores that do not set one, or "". The
// error has a line for each mistake: line and field, the value, and what is allowed.
func Parse(data []byte, from string) (*Config, error) {
	if len(data) > MaxConfig {
		return nil, fmt.Errorf("%d bytes: must be at most %d", len(data), MaxConfig)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(document.Content) == 0 {
		return nil, errors.New("is empty: must have a list of stores")
	}
	r, c := &reader{}, &Config{}
	present := r.object(document.Content[0], "configuration", map[string]func(*yaml.Node, string){
		"stores": func(n *yaml.Node, _ string) {
			r.each(n, "stores", MaxStores, func(n *yaml.Node, at string) { r.store(c, n, at, from) })
		},
	})
	if !present["stores"] && len(r.errs) == 0 {
		r.fail(document.Content[0], "configuration", "must have a list of stores")
	}
	return c, r.err()
}

func (r *reader) store(c *Config, n *yaml.Node, at, from string) {
	s := Store{Kind: Pair, From: from, UID: -1, GID: -1}
	var kind, mode string
	present := r.object(n, at, map[string]func(*yaml.Node, string){
		"name":     r.text(&s.Name, StoreNameFault),
		"kind":     r.oneOf(&kind, string(Pair), string(Bundle)),
		"from":     r.text(&s.From, absolute),
		"path":     r.text(&s.Path, absolute),
		"combined": r.boolean(&s.Combined),
		"mode":     r.text(&mode, fileMode),
		"names": func(n *yaml.Node, at string) {
			r.each(n, at, maxNames, func(n *yaml.Node, at string) {
				var name string
				r.text(&name, hostName)(n, at)
				s.Names = append(s.Names, name)
			})
		},
		"owner": func(n *yaml.Node, at string) {
			r.object(n, at, map[string]func(*yaml.Node, string){"uid": r.number(&s.UID, 0, 1<<31-1), "gid": r.number(&s.GID, 0, 1<<31-1)})
		},
		"action": func(n *yaml.Node, at string) { r.action(&s.Action, n, at) },
		"check":  func(n *yaml.Node, at string) { r.check(&s, n, at) },
	})
	if kind != "" {
		s.Kind = Kind(kind)
	}
	s.Mode = 0o600
	if s.Kind == Bundle {
		s.Mode = 0o644
	}
	if mode != "" {
		v, _ := strconv.ParseUint(mode, 8, 32) // fileMode has validated it
		s.Mode = fs.FileMode(v)
	}
	r.together(c, &s, n, at, present)
	c.Stores = append(c.Stores, s)
}

// together validates fields that depend on each other, and on other stores.
func (r *reader) together(c *Config, s *Store, n *yaml.Node, at string, present map[string]bool) {
	if !present["name"] {
		r.fail(n, at, "must have a name")
	}
	if s.From == "" && !present["from"] {
		r.fail(n, at, "must have from, the directory of the certificate, unless --from is set")
	}
	for _, other := range c.Stores {
		if s.Name != "" && s.Name == other.Name {
			r.fail(n, at+".name", "%q: is also the name of another store", s.Name)
		}
		if s.Path != "" && (within(s.Path, other.Path) || within(other.Path, s.Path)) {
			r.fail(n, at+".path", "%q: overlaps with the path of store %s", s.Path, other.Name)
		}
	}
	if s.Kind == Bundle {
		if s.Path == "" && !present["path"] {
			r.fail(n, at, "must have path, the file to write, in a store of kind bundle")
		}
		for _, field := range []string{"names", "combined", "check"} {
			if present[field] {
				r.fail(n, at+"."+field, "is not allowed in a store of kind bundle")
			}
		}
	}
}

func (r *reader) action(a *Action, n *yaml.Node, at string) {
	a.Timeout = defaultActionTimeout
	present := r.object(n, at, map[string]func(*yaml.Node, string){
		"none": func(n *yaml.Node, at string) { r.object(n, at, nil) },
		"signal": func(n *yaml.Node, at string) {
			a.Signal = &Signal{}
			r.all(n, at, map[string]func(*yaml.Node, string){"pidfile": r.text(&a.Signal.PIDFile, absolute), "signal": r.oneOf(&a.Signal.Signal, Signals...)})
		},
		"systemd": func(n *yaml.Node, at string) {
			a.Systemd = &Systemd{}
			r.all(n, at, map[string]func(*yaml.Node, string){"unit": r.text(&a.Systemd.Unit, unitName), "verb": r.oneOf(&a.Systemd.Verb, "reload", "restart")})
		},
		"exec": func(n *yaml.Node, at string) { a.Exec = r.command(n, at) },
		"staticPod": func(n *yaml.Node, at string) {
			a.StaticPod = &StaticPod{}
			r.all(n, at, map[string]func(*yaml.Node, string){"manifest": r.text(&a.StaticPod.Manifest, absolute)})
		},
		"timeout": r.duration(&a.Timeout, time.Second, maxActionTimeout),
		"window":  r.duration(&a.Window, 0, maxWindow),
	})
	count := 0
	for _, kind := range []string{"none", "signal", "systemd", "exec", "staticPod"} {
		if present[kind] {
			count++
		}
	}
	if count != 1 {
		r.fail(n, at, "must have exactly one of none, signal, systemd, exec, staticPod")
	}
}

func (r *reader) command(n *yaml.Node, at string) (command []string) {
	r.each(n, at, maxArguments, func(n *yaml.Node, at string) {
		var argument string
		wrong := func(string) string { return "" }
		if len(command) == 0 {
			wrong = absolute
		}
		r.text(&argument, wrong)(n, at)
		command = append(command, argument)
	})
	return command
}

func (r *reader) check(s *Store, n *yaml.Node, at string) {
	s.Check = &Check{Timeout: defaultCheckTimeout}
	present := r.object(n, at, map[string]func(*yaml.Node, string){
		"address": r.text(&s.Check.Address, func(text string) string {
			if a, err := netip.ParseAddrPort(text); err != nil || a.Port() == 0 || a.Addr().IsUnspecified() {
				return "must be an IP address and a port, such as 127.0.0.1:10259"
			}
			return ""
		}),
		"serverName": r.text(&s.Check.ServerName, hostName),
		"timeout":    r.duration(&s.Check.Timeout, time.Second, maxCheckTimeout),
	})
	if !present["address"] {
		r.fail(n, at, "must have an address")
	}
}

// all is object for a mapping that must have all fields.
func (r *reader) all(n *yaml.Node, at string, fields map[string]func(*yaml.Node, string)) {
	present := r.object(n, at, fields)
	for field := range fields {
		if n.Kind == yaml.MappingNode && !present[field] {
			r.fail(n, at, "must have the field %s", field)
		}
	}
}

// StoreNameFault returns the rule for names of stores, or "" if s is a valid one.
func StoreNameFault(s string) string {
	if nameOfStore.MatchString(s) && !strings.Contains(s, "..") {
		return ""
	}
	return "must be 1 to 63 lower-case letters, digits, '-' and '.', and begin and end with a letter or digit"
}

func unitName(s string) string {
	if nameOfUnit.MatchString(s) {
		return ""
	}
	return "must be the name of a unit that ends in .service, .socket or .target"
}

func hostName(s string) string {
	if _, err := netip.ParseAddr(s); err == nil || nameOfHost.MatchString(s) {
		return ""
	}
	return "must be a DNS name in lower case, or an IP address"
}

func absolute(s string) string {
	if path.IsAbs(s) && path.Clean(s) == s && s != "/" {
		return ""
	}
	return "must be an absolute path without '..', '//' and a trailing '/'"
}

func fileMode(s string) string {
	v, err := strconv.ParseUint(s, 8, 32)
	if err != nil || v > 0o777 || v&0o400 == 0 || v&0o133 != 0 {
		return `must be octal permissions, such as "0640": readable by the owner, not writable by others, not executable`
	}
	return ""
}

// within reports whether a path is the directory or below it.
func within(p, directory string) bool {
	return directory != "" && p != "" && (p == directory || strings.HasPrefix(p, directory+"/"))
}
