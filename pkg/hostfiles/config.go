// Package hostfiles decides how the certificate files of a host follow a source directory. They serve
// programs outside ordinary pods, such as static pods, systemd units and the kubelet. [Decide] returns
// whether to install a new certificate, run the action, or roll back. [Parse] reads the configuration.
// The packages below have the side effects: source reads, store writes, actions runs the actions, and
// hostsync calls them.
//
// hostsync runs on every host, and imports cost memory there: this package does without package api.
package hostfiles

import (
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// Kind is the kind of a store.
type Kind string

// The kinds of stores.
const (
	Pair   Kind = "pair"   // certificate, key and CA bundle, in a directory
	Bundle Kind = "bundle" // the CA bundle alone, in a file
)

// Config is the configuration file.
type Config struct{ Stores []Store }

// Store is a certificate or CA bundle on the host that hostsync keeps up to date.
type Store struct {
	Name string
	Kind Kind
	// From is the directory with tls.crt and tls.key, or tls-combined.pem, and ca.crt.
	From string
	// Names must all be covered by the certificate. If empty, it must share a name with the installed one.
	Names []string
	// Path is the file of a bundle, or the directory of a pair, which is exchanged as a whole. If it is
	// empty, programs read the pair through the link current in the store's directory.
	Path string
	// Combined requests NAME-current.pem as well: the certificates, followed by the key.
	Combined bool
	// Mode has the permissions of the files with the private key, or of the bundle.
	Mode fs.FileMode
	// UID and GID own the files; -1 stands for the user or group that runs hostsync.
	UID, GID int
	Action   Action
	Check    *Check
}

// Action runs once after each switch. The zero value does nothing.
type Action struct {
	Signal    *Signal
	Systemd   *Systemd
	Exec      []string // an absolute path, and its arguments
	StaticPod *StaticPod
	// Timeout limits each attempt.
	Timeout time.Duration
	// Window is the time over which the hosts of a cluster spread the action.
	Window time.Duration
}

// Signal is sent to the process whose id is in PIDFile.
type Signal struct{ PIDFile, Signal string }

// Systemd applies Verb, reload or restart, to a unit of systemd.
type Systemd struct{ Unit, Verb string }

// StaticPod changes an annotation in the manifest of a static pod, so that the kubelet restarts the pod.
type StaticPod struct{ Manifest string }

// Check is the address where the program must serve the certificate.
type Check struct {
	Address, ServerName string
	// Timeout is the time within which the program must serve the certificate after the action.
	Timeout time.Duration
}

// None reports whether there is nothing to do.
func (a Action) None() bool {
	return a.Signal == nil && a.Systemd == nil && a.Exec == nil && a.StaticPod == nil
}

// String returns a short description of the action.
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
