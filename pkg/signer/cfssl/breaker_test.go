package cfssl

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/pki"
	"github.com/servingcert/servingcert/pkg/signer/issue"
)

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
		again int32  // requests to the first for two certificates
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
