package port

import (
	"errors"
	"io"
	"net/http"
)

// leaveBodies makes the server close a connection after it has answered a request whose body was not
// read to its end. net/http would wait half a second, so that a client that is still sending can see
// the answer, and such requests could keep others waiting.
func leaveBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		body := &body{ReadCloser: r.Body}
		r.Body = body
		reply := &reply{ResponseWriter: w, to: body}
		next.ServeHTTP(reply, r)
		if !body.ended {
			_, _ = reply.Write(nil) // the handler may have written nothing
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler) // the only way to make net/http close at once
		}
	})
}

// body is a request's body. It records whether it was read to its end.
type body struct {
	io.ReadCloser
	ended bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || errors.Is(err, io.EOF)
	return n, err
}

// reply is the response to a request with a body. If the body was not read, the reply ends with the
// connection: nothing follows what the handler wrote, not even a last chunk.
type reply struct {
	http.ResponseWriter
	to    *body
	begun bool
}

func (r *reply) WriteHeader(status int) {
	r.begun = r.begun || status >= http.StatusOK
	if !r.to.ended {
		r.Header().Set("Connection", "close")
		r.Header().Set("Transfer-Encoding", "identity") // net/http then writes none
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *reply) Write(p []byte) (int, error) {
	if !r.begun {
		r.WriteHeader(http.StatusOK)
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (r *reply) Unwrap() http.ResponseWriter { return r.ResponseWriter }
