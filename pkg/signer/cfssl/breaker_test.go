package cfssl

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

func TestBreakerRests(t *testing.T) {
	var b breaker
	now, timeout := epoch, 10*time.Second
	down := remoteError(issue.ReasonUnreachable, "down")
	require.Nil(t, b.allow(now, timeout))
	require.Nil(t, b.resting(now))
	var rests []time.Duration
	for range 8 {
		b.failed(now, now, down, 1)
		from := now
		for b.allow(now, timeout) != nil {
			assert.Equal(t, down, b.resting(now))
			now = now.Add(time.Second)
		}
		rests = append(rests, now.Sub(from))
		assert.Equal(t, down, b.allow(now, timeout), "one may ask; the others wait for what it finds")
		assert.Nil(t, b.allow(now.Add(timeout), timeout), "not longer than that may take")
		now = now.Add(timeout)
	}
	s := time.Second
	assert.Equal(t, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s}, rests)

	b.answered()
	require.Nil(t, b.allow(now, timeout))
	b.failed(now, now, down, 0)
	assert.Nil(t, b.allow(now.Add(time.Second/2), timeout), "after an answer it starts again, and chance takes up to half away")
}

func TestBreakerCountsWhatFailedTogetherOnce(t *testing.T) {
	var b breaker
	down := remoteError(issue.ReasonUnreachable, "down")
	for range 8 {
		require.Nil(t, b.allow(epoch, time.Second))
	}
	for i := range 8 {
		b.failed(epoch, epoch.Add(time.Duration(i)*time.Millisecond), down, 1)
	}
	assert.NotNil(t, b.allow(epoch.Add(900*time.Millisecond), time.Second))
	assert.Nil(t, b.allow(epoch.Add(1010*time.Millisecond), time.Second), "eight requests are one failure")
}

func TestBreakerLetsTheNextAskAfterOneThatGaveUp(t *testing.T) {
	var b breaker
	b.abandoned(epoch)
	require.Nil(t, b.allow(epoch, time.Second), "and nothing else comes of that")
	b.failed(epoch, epoch, remoteError(issue.ReasonUnreachable, "down"), 1)
	due := epoch.Add(time.Second)
	require.Nil(t, b.allow(due, time.Minute))
	require.NotNil(t, b.allow(due, time.Minute))
	b.abandoned(due)
	assert.Nil(t, b.allow(due, time.Minute))
}

// However many ask and whenever: a server that is down is asked at most as often
// as its rests allow, and not later than a minute after its last failure.
func TestBreakerBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b breaker
		now, last, asked := epoch, time.Time{}, 0
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(1, int64(20*time.Second)).Draw(t, "after")))
			if b.allow(now, time.Second) != nil {
				require.Less(t, now.Sub(last), lastRest)
				continue
			}
			if asked > 0 {
				require.GreaterOrEqual(t, now.Sub(last), firstRest/2)
			}
			if asked > 7 {
				require.GreaterOrEqual(t, now.Sub(last), lastRest/2)
			}
			b.failed(now, now, remoteError(issue.ReasonUnreachable, "down"), rapid.Float64Range(0, 0.999).Draw(t, "chance"))
			last = now
			asked++
		}
	})
}

// sign has remote sign a new request, and returns who signed it.
func sign(t *testing.T, remote *Remote, ca *pki.Authority) error {
	_, err := issue.Issue(context.Background(), remote.Sign, withoutKey(ca), wantedBy(service("web")), epoch)
	return err
}

func TestRemoteFailsOver(t *testing.T) {
	ca := testCA(t)
	for name, c := range map[string]struct {
		first http.HandlerFunc
		fails string // "" if the second is asked
		again int32  // how often the first is asked by two certificates
	}{
		"away":               {answer(503, ""), "", 1},
		"hangs up":           {hangUp, "", 1},
		"not cfssl":          {answer(200, "hello"), "", 1},
		"not a certificate":  {answer(200, success(map[string]any{"certificate": "x"})), "", 1},
		"another CA already": {signs(testCA(t)), "", 2},
		"works":              {signs(ca), "", 2},
		"refuses":            {answer(400, refusal("no")), `refused: "no"`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := serve(t, c.first), serve(t, signs(ca))
			remote, _ := remoteAt(t, []*remoteServer{first, second})
			for range 2 {
				if err := sign(t, remote, ca); c.fails == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, c.fails)
				}
			}
			assert.Equal(t, c.again, first.asked.Load(), "a server that does not work costs the second certificate nothing")
			if c.fails != "" {
				assert.Zero(t, second.asked.Load())
			}
			assert.NoError(t, remote.Available())
		})
	}
}

func TestRemoteNamesEveryServerThatFailed(t *testing.T) {
	first, second := serve(t, answer(503, "")), serve(t, answer(404, ""))
	remote, clock := remoteAt(t, []*remoteServer{first, second})
	err := sign(t, remote, testCA(t))
	require.ErrorContains(t, err, first.URL+": answered with status 503; "+second.URL+": answered with status 404")
	assert.Equal(t, issue.ReasonUnreachable, reasonOf(err))

	clock.advance(400 * time.Millisecond)
	assert.EqualError(t, sign(t, remote, testCA(t)), err.Error(), "while both rest, the same is said at once")
	assert.Equal(t, []int32{1, 1}, []int32{first.asked.Load(), second.asked.Load()})
	assert.ErrorContains(t, remote.Available(), second.URL)
	clock.advance(time.Second)
	require.NoError(t, remote.Available(), "one may ask now")
	assert.EqualError(t, sign(t, remote, testCA(t)), err.Error())
	assert.Equal(t, []int32{2, 2}, []int32{first.asked.Load(), second.asked.Load()})
}

func TestRemoteComesBack(t *testing.T) {
	ca, away := testCA(t), true
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if away {
			answer(503, "")(w, r)
		} else {
			signs(ca)(w, r)
		}
	})
	remote, clock := remoteAt(t, []*remoteServer{server})
	for range 10 {
		require.Error(t, sign(t, remote, ca))
		clock.advance(time.Minute)
	}
	away = false
	require.NoError(t, sign(t, remote, ca), "a minute after the last failure at the latest")
	require.NoError(t, sign(t, remote, ca))
}
