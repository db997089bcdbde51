package trust

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"unique"

	corev1 "k8s.io/api/core/v1"
)

// latestData is what the ConfigMap held that was stripped last.
var latestData atomic.Pointer[map[string]string]

// StripConfigMap removes from a ConfigMap all but the requested key, and the names
// of some of the keys that may not be beside it. Of the value a digest is kept.
// The bundle is the same in all ConfigMaps, so that it is in memory once, and so is the map
// with nothing else: what is left of the ConfigMap must not be changed.
func StripConfigMap(cm *corev1.ConfigMap, r Request) {
	data, binary := cm.Data, cm.BinaryData
	cm.Data, cm.BinaryData = nil, nil
	if !r.Requested {
		cm.Immutable = nil
		return
	}
	others := maxOtherKeys
	for key, value := range data {
		switch {
		case key == r.Key:
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
	if latest := latestData.Load(); latest != nil && maps.Equal(*latest, cm.Data) {
		cm.Data = *latest
	} else if kept := cm.Data; kept != nil {
		latestData.Store(&kept)
	}
	if _, ok := binary[r.Key]; ok {
		cm.BinaryData = map[string][]byte{r.Key: nil}
	}
}

// digest returns what is kept of a value, which only has to be told from the bundle: the value
// itself if it is no longer than that. No client writes a text that begins like a digest, which is
// not UTF-8. The digest of a digest is the same.
func digest(value string) string {
	const begin = "\xffsha256:"
	if len(value) <= len(begin)+sha256.Size {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return begin + string(sum[:])
}

// maxOtherKeys is how many bytes are kept of the names of keys that may not be beside the bundle.
// When those keys have been removed, the next are.
const maxOtherKeys = 1 << 10

// JudgeConfigMap says whether a ConfigMap holds the bundle as requested.
func JudgeConfigMap(cm *corev1.ConfigMap, r Request, bundle []byte) Judgement {
	data, ok := cm.Data[r.Key]
	same := ok && (data == string(bundle) || data == digest(string(bundle)))
	_, binary := cm.BinaryData[r.Key]
	others := otherKeys(cm, r)
	switch {
	case same && len(others) == 0:
		return Holds()
	case cm.Immutable != nil && *cm.Immutable:
		return Judgement{StateRefuses, ReasonImmutable, "the ConfigMap is immutable: delete and recreate it"}
	case binary:
		return Differs("key " + r.Key + " is in binaryData instead of data")
	case !ok:
		return Differs("key " + r.Key + " is missing")
	case !same:
		return Differs("key " + r.Key + " is not the current CA bundle")
	}
	return Differs(fmt.Sprintf("key %s must be the only key, but there is key %s", r.Key, others[0]))
}

// otherKeys are those of the data that may not be beside the bundle, in order.
func otherKeys(cm *corev1.ConfigMap, r Request) []string {
	if !r.Alone {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(cm.Data)), func(key string) bool { return key == r.Key })
}

// ClearConfigMap returns a JSON merge patch, for the ConfigMap's resourceVersion,
// that removes the keys that may not be beside the bundle: the same key of
// binaryData, which the API server would refuse, and other keys of the data where
// the request says so. It is nil if there are none.
func ClearConfigMap(cm *corev1.ConfigMap, r Request) []byte {
	type keys map[string]any
	type metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	}
	patch := struct {
		Metadata   metadata `json:"metadata"`
		Data       keys     `json:"data,omitempty"`
		BinaryData keys     `json:"binaryData,omitempty"`
	}{Metadata: metadata{cm.ResourceVersion}, Data: keys{}}
	for _, key := range otherKeys(cm, r) {
		patch.Data[key] = nil
	}
	if _, ok := cm.BinaryData[r.Key]; ok {
		patch.BinaryData = keys{r.Key: nil}
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
