// Package hostfiles decides how files on a host are kept as good as the certificate that a directory
// holds: for programs that are no pods, such as static pods, systemd units and the kubelet. It says
// which content replaces which ([Decide]), what is run after it, and when it is taken back; it reads
// the configuration ([Parse]). Its shells are the folders below: store writes, actions runs, source
// reads, and hostsync carries all of it out.
//
// It runs on every host, so what it imports is memory there: it does without package api.
package hostfiles

import (
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// Kind is what a store holds.
type Kind string

// The kinds of stores.
const (
	Pair   Kind = "pair"   // certificate, key and CA bundle, in a directory
	Bundle Kind = "bundle" // the CA bundle alone, in a file
)

// Config is the configuration file.
type Config struct{ Stores []Store }

// Store is something on the host that is kept up to date.
type Store struct {
	Name string
	Kind Kind
	// From is the directory with tls.crt and tls.key, or tls-combined.pem, and ca.crt.
	From string
	// Names must all be covered by the certificate; none: those of the certificate that is there count.
	Names []string
	// Path is for a bundle the file. For a pair it is a directory that is exchanged as a whole; if it
	// is empty, the pair is found through the link current of the store's directory.
	Path string
	// Combined asks for NAME-current.pem: the certificates, and then the key.
	Combined bool
	// Mode is that of the files with the private key, and of a bundle.
	Mode fs.FileMode
	// UID and GID own the files; -1: whoever runs hostsync.
	UID, GID int
	Action   Action
	Check    *Check
}

// Action is what is done once after each switch; the zero value is nothing.
type Action struct {
	Signal    *Signal
	Systemd   *Systemd
	Exec      []string // an absolute path, and its arguments
	StaticPod *StaticPod
	// Timeout is how long it may take.
	Timeout time.Duration
	// Window is the time over which the hosts of a cluster spread the action.
	Window time.Duration
}

// Signal is sent to the process whose id a file holds.
type Signal struct{ PIDFile, Signal string }

// Systemd asks the system's manager to do something with a unit.
type Systemd struct{ Unit, Verb string }

// StaticPod changes an annotation in the manifest of a static pod, so that its kubelet starts it anew.
type StaticPod struct{ Manifest string }

// Check is where a program is seen to serve the certificate.
type Check struct {
	Address, ServerName string
	// Timeout is how long it may take after the action until the certificate is served.
	Timeout time.Duration
}

// None reports whether there is nothing to do.
func (a Action) None() bool {
	return a.Signal == nil && a.Systemd == nil && a.Exec == nil && a.StaticPod == nil
}

// String returns the action in a few words.
func (a Action) String() string {
	switch {
	case a.Signal != nil:
		return fmt.Sprintf("send SIG%s to the process in %s", a.Signal.Signal, a.Signal.PIDFile)
	case a.Systemd != nil:
		return fmt.Sprintf("%s unit %s", a.Systemd.Verb, a.Systemd.Unit)
	case a.Exec != nil:
		return "run " + strings.Join(a.Exec, " ")
	case a.StaticPod != nil:
		return "restart the static pod of " + a.StaticPod.Manifest
	}
	return "none"
}

// Names of files in a directory with a pair.
const (
	CertFile   = "tls.crt"
	KeyFile    = "tls.key"
	BundleFile = "ca.crt"
)

// CombinedFile is the name of the file with certificates and key.
func (s *Store) CombinedFile() string { return s.Name + "-current.pem" }
