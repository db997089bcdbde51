package trust

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"unique"

	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
)

// latestData and latestBinary are the content of the ConfigMap that was last stripped.
var (
	latestData   atomic.Pointer[map[string]string]
	latestBinary atomic.Pointer[map[string][]byte]
)

// StripConfigMap removes everything from a ConfigMap except digests of the requested keys,
// and the names of some of the keys that must not be there. Most ConfigMaps have equal
// content, so their maps are shared in memory: the result must not be changed.
func StripConfigMap(cm *corev1.ConfigMap, r Request) {
	data, binary := cm.Data, cm.BinaryData
	cm.Data, cm.BinaryData = nil, nil
	if !r.Requested {
		cm.Immutable = nil
		return
	}
	keys := r.keys(r.files | r.ifPublic)
	others := maxOtherKeys
	for key, value := range data {
		switch {
		case slices.Contains(keys, key):
			value = unique.Make(digest(value)).Value()
		case r.Alone && len(key) <= others:
			value = ""
			others -= len(key)
		default:
			continue
		}
		if cm.Data == nil {
			cm.Data = map[string]string{}
		}
		cm.Data[key] = value
	}
	cm.Data = latest(&latestData, cm.Data, maps.Equal[map[string]string, map[string]string])
	for _, key := range keys {
		if value, ok := binary[key]; ok {
			if cm.BinaryData == nil {
				cm.BinaryData = map[string][]byte{}
			}
			cm.BinaryData[key] = []byte(digest(string(value)))
		}
	}
	cm.BinaryData = latest(&latestBinary, cm.BinaryData, func(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) })
}

// latest returns the content of the last ConfigMap if it is equal to kept, else kept.
func latest[M ~map[string]V, V any](last *atomic.Pointer[M], kept M, equal func(a, b M) bool) M {
	if known := last.Load(); known != nil && equal(*known, kept) {
		return *known
	}
	if kept != nil {
		last.Store(&kept)
	}
	return kept
}

// digest returns what is kept of a value, to compare it with the bundle: its digest, or the
// value itself if that is not longer. A digest is not valid UTF-8, so no client can write a
// text that looks like one. The digest of a digest is itself.
func digest(value string) string {
	if len(value) <= len(digestPrefix)+sha256.Size {
		return value
	}
	return digestOf(sha256.Sum256([]byte(value)))
}

const digestPrefix = "\xffsha256:"

// digestOf returns the digest of a longer value with the given SHA-256.
func digestOf(sum [sha256.Size]byte) string { return digestPrefix + string(sum[:]) }

// maxOtherKeys bounds the total length of the names of forbidden keys that are kept. Once those
// keys are removed, the next ones follow.
const maxOtherKeys = 1 << 10

// EvaluateConfigMap returns whether a ConfigMap holds the requested bundle and files.
func EvaluateConfigMap(cm *corev1.ConfigMap, r Request, bundle Bundle) Evaluation {
	wanted, err := r.contents(bundle)
	if err != nil {
		return Evaluation{StateRefuses, ReasonOther, err.Error()}
	}
	wrong := ""
	for _, c := range wanted {
		if wrong = c.wrongIn(cm); wrong != "" {
			break
		}
	}
	others := otherKeys(cm, r)
	switch {
	case wrong == "" && len(others) == 0:
		return Holds()
	case cm.Immutable != nil && *cm.Immutable:
		what := "delete and recreate it"
		if cm.Name == api.BundleName {
			what = "delete it, and it is created again with the bundle"
		}
		return Evaluation{StateRefuses, ReasonImmutable, "the ConfigMap is immutable: " + what}
	case wrong != "":
		return Differs(wrong)
	}
	return Differs(fmt.Sprintf("key %s must be the only key, but there is key %s", r.Key, others[0]))
}

// Proof returns a digest of the request for a ConfigMap with a password of its own, and of what the
// ConfigMap holds; "" for other requests. [EvaluateConfigMap] makes a file with that password, which
// costs thousands of hashes. So what it finds is kept with the Proof, for decisions about all targets.
func Proof(cm *corev1.ConfigMap, r Request, bundle Bundle) string {
	wanted := r.wants(bundle)
	if r.password == "" || wanted&(FileTruststore|FilePublicTruststore) == 0 {
		return ""
	}
	parts := []string{r.password}
	for _, key := range r.keys(wanted) {
		parts = append(parts, key, digest(cm.Data[key]), digest(string(cm.BinaryData[key])))
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
	return string(sum[:])
}

// wrongIn returns what is wrong with the content's key in a ConfigMap, or "". The ConfigMap may
// have been stripped.
func (c content) wrongIn(cm *corev1.ConfigMap) string {
	text, inData := cm.Data[c.key]
	held, inBinary := cm.BinaryData[c.key]
	there, elsewhere, where := inData, inBinary, "in binaryData instead of data"
	if c.binary {
		there, elsewhere, where = inBinary, inData, "in data instead of binaryData"
		text = string(held)
	}
	switch {
	case there && (text == c.digest || digest(text) == c.digest):
		return ""
	case elsewhere:
		return "key " + c.key + " is " + where
	case !there:
		return "key " + c.key + " is missing"
	case c.made:
		return "key " + c.key + " does not have the current roots"
	}
	return "key " + c.key + " is not the current CA bundle"
}

// keys returns the keys of the bundle and of the given files, in order.
func (r Request) keys(of Files) []string {
	keys := []string{r.Key}
	for _, f := range files {
		if of&f.file != 0 {
			keys = append(keys, f.name)
		}
	}
	return keys
}

// ConfigMapData returns the data and the binaryData to apply to the ConfigMap.
func ConfigMapData(r Request, bundle Bundle) (data map[string]string, binary map[string][]byte) {
	wanted, err := r.contents(bundle)
	if err != nil {
		return nil, nil // EvaluateConfigMap reports that it refuses
	}
	data, binary = map[string]string{}, map[string][]byte{}
	for _, c := range wanted {
		if c.binary {
			binary[c.key] = c.value
		} else {
			data[c.key] = string(c.value)
		}
	}
	return data, binary
}

// otherKeys returns the keys of the data that must not be there, sorted.
func otherKeys(cm *corev1.ConfigMap, r Request) []string {
	if !r.Alone {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(cm.Data)), func(key string) bool { return key == r.Key })
}

// ClearConfigMap returns a JSON merge patch, for the ConfigMap's resourceVersion, that
// removes conflicting keys: a requested key in binaryData instead of data or the other
// way round, which the API server would reject, and the other keys of the data if the
// request is Alone. It is nil if there are none.
func ClearConfigMap(cm *corev1.ConfigMap, r Request, bundle Bundle) []byte {
	type keys map[string]any
	type metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	}
	patch := struct {
		Metadata   metadata `json:"metadata"`
		Data       keys     `json:"data,omitempty"`
		BinaryData keys     `json:"binaryData,omitempty"`
	}{metadata{cm.ResourceVersion}, keys{}, keys{}}
	for _, key := range otherKeys(cm, r) {
		patch.Data[key] = nil
	}
	for _, key := range r.keys(r.wants(bundle)) {
		binary := isBinary(key)
		if _, ok := cm.BinaryData[key]; ok && !binary {
			patch.BinaryData[key] = nil
		}
		if _, ok := cm.Data[key]; ok && binary {
			patch.Data[key] = nil
		}
	}
	if len(patch.Data)+len(patch.BinaryData) == 0 {
		return nil
	}
	out, err := json.Marshal(patch)
	if err != nil {
		return nil // strings and nil always marshal
	}
	return out
}

// isBinary reports whether the key belongs in binaryData.
func isBinary(key string) bool {
	return slices.ContainsFunc(files, func(f file) bool { return f.binary && f.name == key })
}
