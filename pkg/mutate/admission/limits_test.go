package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/mutate/choose"
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

// manyMounts is a review of nearly maxValues.
func manyMounts() string {
	return review(`{"spec":{"containers":[{"volumeMounts":[` + strings.Repeat("{},", maxValues/2-50) + `{}]}]}}`)
}

// TestWhatIsDecodedIsBounded: a review waits for those of its kind whose pods are decoded, and gives its part back.
func TestWhatIsDecodedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bare, _ := (&world{cached: knows(webService)}).bare(t, logr.Discard())
		h := bare.serving()
		small := func() *httptest.ResponseRecorder { return ordinary(t, h) }
		large := func() *httptest.ResponseRecorder { return send(h, strings.NewReader(manyMounts())) }
		require.NoError(t, bare.memory.large.Acquire(t.Context(), maxLarge))
		refused := large()
		assert.Equal(t, http.StatusTooManyRequests, refused.Code)
		assert.Equal(t, "1", refused.Header().Get("Retry-After"))
		assert.Equal(t, http.StatusOK, small().Code)
		require.NoError(t, bare.memory.small.Acquire(t.Context(), maxSmall))
		assert.Equal(t, http.StatusTooManyRequests, small().Code)
		bare.memory.large.Release(maxLarge)
		assert.Equal(t, http.StatusOK, large().Code)
		bare.memory.small.Release(maxSmall)
		assert.Equal(t, http.StatusOK, small().Code)
		assert.True(t, bare.memory.large.TryAcquire(maxLarge), "all was given back")
		assert.True(t, bare.memory.small.TryAcquire(maxSmall), "all was given back")
	})
}

// TestReviewsThatAskTheAPIServerHoldUpNobody: however many reviews wait for the API server, ordinary and large
// ones are decoded at once.
func TestReviewsThatAskTheAPIServerHoldUpNobody(t *testing.T) {
	for name, body := range map[string]string{
		"large": manyMounts(),
		"small": review(`{"spec":{"containers":[` + strings.Repeat("{},", smallValues/2-50) + `{}]}}`),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bare, _ := (&world{}).bare(t, logr.Discard())
				slow := strings.ReplaceAll(body, `"shop"`, `"slow"`)
				read := make(chan struct{})
				bare.cached = func(_ context.Context, namespace string) (choose.Known, bool) {
					return knows(webService), namespace == "shop"
				}
				bare.live = func(_ context.Context, namespace string) (choose.Known, error) {
					if namespace == "slow" {
						<-read
					}
					return choose.Known{}, nil
				}
				h, started := bare.serving(), time.Now()
				var slowOnes sync.WaitGroup
				codes := make([]int, 8)
				for i := range codes {
					slowOnes.Go(func() { codes[i] = send(h, strings.NewReader(slow)).Code })
				}
				synctest.Wait()
				assert.Equal(t, http.StatusOK, ordinary(t, h).Code)
				assert.Equal(t, http.StatusOK, send(h, strings.NewReader(body)).Code)
				assert.Zero(t, time.Since(started), "nobody waited")
				close(read)
				slowOnes.Wait()
				for _, code := range codes {
					assert.Equal(t, http.StatusOK, code)
				}
			})
		})
	}
}
