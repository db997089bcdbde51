package bounded

import (
	"io"
	"net/http"

	"k8s.io/client-go/rest"
)

// LargestResponse makes the clients of a configuration count what they read. It returns a function that
// returns the most bytes that were read of one response. Later wrappers of the configuration see all bytes.
func LargestResponse(cfg *rest.Config) func() int {
	largest := 0
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil {
				response.Body = &counted{ReadCloser: response.Body, largest: &largest}
			}
			return response, err
		})
	})
	return func() int { return largest }
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// counted counts what is read of a response.
type counted struct {
	io.ReadCloser
	read    int
	largest *int
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.read += n
	*c.largest = max(*c.largest, c.read)
	return n, err
}
