package api

import (
	"crypto/sha256"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Mounted is what the files that a pod mounts from servingcert's objects should hold: the
// value of annotation AnnotationLeaf. It is the same for all pods with the same mounts.
type Mounted struct {
	// Leaves maps each Secret to the fingerprint of its leaf, or, if only its chain changed, to a SHA-256 of both in hex.
	Leaves map[string]string
	// Bundle is the SHA-256 of the CA bundle in hex, like CABundleHash; empty if the pod
	// does not mount ConfigMap BundleName.
	Bundle string
}

// The forms of an entry, each followed by a SHA-256 in hex.
const (
	mountedSecret = "secret/"
	mountedBundle = "configmap/" + BundleName + "="
)

// String returns the value of the annotation, "" for the zero Mounted. It names
// Secrets by name, and the bundle last:
//
//	secret/NAME=FINGERPRINT,…,configmap/servingcert-ca.crt=SHA256
func (m Mounted) String() string {
	var entries []string
	for _, name := range slices.Sorted(maps.Keys(m.Leaves)) {
		entries = append(entries, mountedSecret+name+"="+m.Leaves[name])
	}
	if m.Bundle != "" {
		entries = append(entries, mountedBundle+m.Bundle)
	}
	return strings.Join(entries, ",")
}

// LongestMounted returns the largest size in bytes of the annotation of a pod that mounts these
// Secrets.
func LongestMounted(secrets []string) int {
	const fingerprint = 2 * sha256.Size // in hex
	size := len(mountedBundle) + fingerprint
	for _, name := range secrets {
		size += len(mountedSecret) + len(name) + len("=") + fingerprint + len(",")
	}
	return size
}

// ParseMounted reads the value of the annotation. It skips malformed entries, and a value longer
// than MaxAnnotation: the pod is then treated as if it did not have them.
func ParseMounted(value string) Mounted {
	var m Mounted
	if len(value) > MaxAnnotation {
		return m
	}
	for entry := range strings.SplitSeq(value, ",") {
		if hash, ok := strings.CutPrefix(entry, mountedBundle); ok && IsFingerprint(hash) {
			m.Bundle = hash
			continue
		}
		secret, ok := strings.CutPrefix(entry, mountedSecret)
		name, leaf, ok2 := strings.Cut(secret, "=")
		if !ok || !ok2 || name == "" || !IsFingerprint(leaf) {
			continue
		}
		if m.Leaves == nil {
			m.Leaves = map[string]string{}
		}
		m.Leaves[name] = leaf
	}
	return m
}

var fingerprint = regexp.MustCompile(`^[0-9a-f]{64}$`)

// IsFingerprint reports whether s has the form of pki.Fingerprint: SHA-256 in hex.
func IsFingerprint(s string) bool { return fingerprint.MatchString(s) }
