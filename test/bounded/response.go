package bounded

import (
	"io"
	"net/http"
)

// LargestResponse returns a wrapper for the transport of a client, and a function that returns the most bytes that the
// client has read of one response.
func LargestResponse() (wrap func(http.RoundTripper) http.RoundTripper, most func() int) {
	largest := 0
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil {
				response.Body = &counted{ReadCloser: response.Body, largest: &largest}
			}
			return response, err
		})
	}, func() int { return largest }
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
