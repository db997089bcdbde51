package pods

import "strings"

// Key identifies the private key that a pod mounts: that of a Secret, or the pod's own key, which
// its kubelet made. It is comparable. The zero Key is no key.
type Key struct {
	secret string
	own    bool
}

// PodKey is the key that the kubelet made for the pod.
var PodKey = Key{own: true}

// podKeyText is PodKey as text. It is not a valid name of a Secret.
const podKeyText = "(pod)"

// SecretKey returns the key in the Secret of that name; the zero Key if the name is empty.
func SecretKey(name string) Key { return Key{secret: name} }

// ParseKey is the inverse of String.
func ParseKey(text string) Key {
	if text == podKeyText {
		return PodKey
	}
	return SecretKey(text)
}

// Secret returns the name of the Secret that contains the key; false if none does.
func (k Key) Secret() (name string, ok bool) { return k.secret, k.secret != "" }

// String returns the name of the Secret, "(pod)" for PodKey, and "" for the zero Key.
func (k Key) String() string {
	if k.own {
		return podKeyText
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
