package pods

import (
	"slices"
	"strings"
)

// Key identifies the private key that a pod mounts: that of a Secret, or the pod's own key, which
// its kubelet made. It is comparable. The zero Key is no key.
type Key struct {
	secret string
	own    bool
	other  bool
}

// PodKey is the key that the kubelet made for the pod.
var PodKey = Key{own: true}

// OtherPodKey is a key that the kubelet made for the pod, with a certificate of another signer.
var OtherPodKey = Key{other: true}

// podKeyText and otherPodKeyText are PodKey and OtherPodKey as text. They are not valid names of Secrets, and sort before
// these, in this order.
const (
	podKeyText      = "(pod)"
	otherPodKeyText = "(pod-other)"
)

// SecretKey returns the key in the Secret of that name; the zero Key if the name is empty.
func SecretKey(name string) Key { return Key{secret: name} }

// ParseKey is the inverse of String.
func ParseKey(text string) Key {
	switch text {
	case podKeyText:
		return PodKey
	case otherPodKeyText:
		return OtherPodKey
	}
	return SecretKey(text)
}

// Secret returns the name of the Secret that contains the key; false if none does.
func (k Key) Secret() (name string, ok bool) { return k.secret, k.secret != "" }

// String returns the name of the Secret, "(pod)" for PodKey, "(pod-other)" for OtherPodKey, and "" for the zero Key.
func (k Key) String() string {
	switch {
	case k.own:
		return podKeyText
	case k.other:
		return otherPodKeyText
	}
	return k.secret
}

// Compare orders keys by their text.
func (k Key) Compare(other Key) int { return strings.Compare(k.String(), other.String()) }

// NamespacedKey is a Key of a namespace.
type NamespacedKey struct {
	Namespace string
	Key       Key
}

// String returns NAMESPACE/KEY.
func (k NamespacedKey) String() string { return k.Namespace + "/" + k.Key.String() }

// Keys returns the private keys in its volumes, PodKey first.
func (f *Facts) Keys() []Key { return f.Template.Value().keys() }

// Secrets returns the names of the Secrets whose key is in its volumes, sorted.
func (f *Facts) Secrets() []string {
	return slices.DeleteFunc(f.Template.Value().mounted(), func(text string) bool { return strings.HasPrefix(text, "(") })
}

// HasPodKey reports whether the kubelet made a key for the pod.
func (f *Facts) HasPodKey() bool { return f.Template.Value().HasPodKey() }

// HasPodKey reports whether the kubelets make keys for the pods.
func (t Template) HasPodKey() bool {
	first, _, _ := strings.Cut(t.mounts, ",") // the bracket sorts before every character of a name
	return first == podKeyText
}

// HasOtherPodKey reports whether the kubelet made a key for the pod, with a certificate of another signer.
func (f *Facts) HasOtherPodKey() bool { return f.Template.Value().Mounts(OtherPodKey) }

// CountKeys returns the number of keys for which the pods may be dialled: those in their volumes, and PodKey, because
// those with a Secret from before their Services had PodKey are dialled for it too.
func (t Template) CountKeys() int {
	if t.HasPodKey() {
		return len(t.mounted())
	}
	return len(t.mounted()) + 1
}

// Mounts reports whether the key is in the pods' volumes.
func (t Template) Mounts(key Key) bool { return slices.Contains(t.keys(), key) }

func (t Template) keys() []Key {
	mounted := t.mounted()
	keys := make([]Key, len(mounted))
	for i, text := range mounted {
		keys[i] = ParseKey(text)
	}
	return keys
}

func (t Template) mounted() []string {
	if t.mounts == "" {
		return nil
	}
	return strings.Split(t.mounts, ",")
}
