package admission

import (
	"errors"
	"fmt"
	"io"
)

// maxValues is about how many values the JSON of a review may have. A pod with a hundred containers
// of fifty variables has 15 000.
const maxValues = 30_000

// body is that of a review. Whoever reaches the webhook's port can send one, and three bytes of JSON
// can be a container, which has hundreds once it is decoded. YAML, which controller-runtime would
// take too, costs a hundred times its length. So reading fails where there are too many values, or
// where no object begins.
type body struct {
	io.ReadCloser
	values        int
	text, escaped bool // whether the next byte is in a string, and after a backslash
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	for _, c := range p[:n] {
		switch {
		case b.escaped:
			b.escaped = false
		case b.text:
			b.text, b.escaped = c != '"', c == '\\'
		case b.values == 0 && c > ' ' && c != '{':
			return n, errors.New("the review is no JSON object")
		case c == '"':
			b.text = true
		case c == '{', c == '[', c == ',':
			b.values++
		}
	}
	if b.values > maxValues {
		return n, fmt.Errorf("the review has more than %d values", maxValues)
	}
	return n, err
}
