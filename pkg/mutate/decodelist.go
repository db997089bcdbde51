package mutate

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// maxDecoded is the most containers, init containers and volumes of a pod that is decoded.
// Three bytes of JSON can be a container, which has hundreds of bytes once it is decoded.
// The limit is above those of checkSize, as nothing may be injected into the pod.
const maxDecoded = 1000

// The lists refuse to be decoded, before there is room made for elements, if they are longer
// than maxDecoded.
type (
	containerList []containerView
	volumeList    []corev1.Volume
)

// UnmarshalJSON implements json.Unmarshaler.
func (l *containerList) UnmarshalJSON(data []byte) error {
	return unmarshalList(data, "containers", (*[]containerView)(l))
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *volumeList) UnmarshalJSON(data []byte) error {
	return unmarshalList(data, "volumes", (*[]corev1.Volume)(l))
}

func unmarshalList[T any](data []byte, what string, into *[]T) error {
	if n := elementsOf(data); n > maxDecoded {
		return fmt.Errorf("%d %s: must be at most %d", n, what, maxDecoded)
	}
	return json.Unmarshal(data, into)
}

// elementsOf returns how many elements a valid JSON array has, and one more for an empty one.
func elementsOf(data []byte) int {
	elements, depth := 1, 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case ',':
			if depth == 1 {
				elements++
			}
		}
	}
	return elements
}
