package admission

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sender has sent a part of a review and waits.
type sender struct {
	*io.PipeWriter
	answer *httptest.ResponseRecorder
}

// sending posts the first n bytes of a review, and returns once they are received or answered.
func sending(h http.Handler, n int) sender {
	from, to := io.Pipe()
	s := sender{to, httptest.NewRecorder()}
	go func() {
		req := httptest.NewRequest(http.MethodPost, Path, from)
		req.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(s.answer, req)
		_ = from.Close()
	}()
	_, _ = to.Write(bytes.Repeat([]byte(" "), n)) // it fails where the answer came first
	synctest.Wait()
	return s
}

// ordinary posts an ordinary review.
func ordinary(t *testing.T, h http.Handler) *httptest.ResponseRecorder {
	t.Helper()
	data, err := json.Marshal(reviewOf(t, ordinaryPod()))
	require.NoError(t, err)
	return send(h, bytes.NewReader(data))
}

// TestWhatIsReceivedIsBounded: those who send large reviews and do not end them take a bounded part of
// the memory. Ordinary reviews are answered meanwhile, and large ones afterwards.
func TestWhatIsReceivedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := (&world{cached: knows(webService)}).handler(t, logr.Discard())
		const n = 3 << 20
		large := strings.Replace(review(`{}`), "{}", `{"metadata":{"annotations":{"a":"`+strings.Repeat("x", n)+`"}}}`, 1)
		var all []sender
		for range maxReceived / n {
			all = append(all, sending(h, n))
			assert.Empty(t, all[len(all)-1].answer.Body.String())
		}
		for range 100 {
			all = append(all, sending(h, uncounted))
		}
		refused := send(h, strings.NewReader(large))
		assert.Equal(t, http.StatusTooManyRequests, refused.Code)
		assert.Equal(t, "1", refused.Header().Get("Retry-After"))
		assert.Contains(t, refused.Body.String(), noAnswer+errTooMany.Error())
		assert.Equal(t, http.StatusOK, ordinary(t, h).Code)
		for _, s := range all {
			_ = s.Close()
		}
		synctest.Wait()
		assert.Equal(t, http.StatusOK, send(h, strings.NewReader(large)).Code)
	})
}

// TestWhatIsDecodedIsBounded: a review waits for those whose pods are decoded, and gives its part back.
func TestWhatIsDecodedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bare, _ := (&world{cached: knows(webService)}).bare(t, logr.Discard())
		h := bare.serving()
		require.NoError(t, bare.memory.decoded.Acquire(t.Context(), maxDecoded))
		rec := ordinary(t, h)
		assert.Equal(t, http.StatusTooManyRequests, rec.Code)
		assert.Equal(t, "1", rec.Header().Get("Retry-After"))
		bare.memory.decoded.Release(maxDecoded)
		assert.Equal(t, http.StatusOK, ordinary(t, h).Code)
		assert.True(t, bare.memory.decoded.TryAcquire(maxDecoded), "all was given back")
	})
}
