package decode

import "fmt"

// MaxElements is the most containers, init containers and volumes of a pod that is decoded.
// Three bytes of JSON can be a container, which has hundreds of bytes once it is decoded.
// The limit is above those of a pod that something is injected into, as nothing may be.
const MaxElements = 1000

// Lists keeps nothing of a pod. It refuses to be decoded from one with a list that is
// longer than MaxElements.
type Lists struct {
	Spec struct {
		Volumes        shortVolumes    `json:"volumes"`
		InitContainers shortContainers `json:"initContainers"`
		Containers     shortContainers `json:"containers"`
	} `json:"spec"`
}

type (
	shortContainers struct{}
	shortVolumes    struct{}
)

// UnmarshalJSON implements json.Unmarshaler.
func (*shortContainers) UnmarshalJSON(data []byte) error { return checkLength(data, "containers") }

// UnmarshalJSON implements json.Unmarshaler.
func (*shortVolumes) UnmarshalJSON(data []byte) error { return checkLength(data, "volumes") }

func checkLength(list []byte, what string) error {
	if n := elementsOf(list); n > MaxElements {
		return fmt.Errorf("%d %s: must be at most %d", n, what, MaxElements)
	}
	return nil
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
