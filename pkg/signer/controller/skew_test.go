package controller

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/servingcert/servingcert/pkg/signer"
)

func TestSkew(t *testing.T) {
	now := epoch
	skew := NewSkew(func() time.Time { return now })
	date := ""
	var failing error
	through := skew.Wrap(roundTripper(func(*http.Request) (*http.Response, error) {
		if failing != nil {
			return nil, failing
		}
		return &http.Response{Header: http.Header{"Date": {date}}}, nil
	}))
	ask := func(server time.Time) error {
		date = server.Format(http.TimeFormat)
		_, err := through.RoundTrip(nil)
		assert.Equal(t, failing, err)
		return skew.Check()
	}
	require.NoError(t, skew.Check(), "before the first answer")
	for off, want := range map[time.Duration]string{
		0: "", 119 * time.Second: "", -119 * time.Second: "",
		3 * time.Minute:  "the signer's clock is more than 2m0s behind the API server's: nothing is signed until one of them is corrected",
		4 * time.Minute:  "the signer's clock is more than 2m0s behind the API server's: nothing is signed until one of them is corrected",
		-3 * time.Minute: "the signer's clock is more than 2m0s ahead of the API server's",
	} {
		err := ask(now.Add(off))
		if want == "" {
			require.NoError(t, err, "%s", off)
			continue
		}
		require.ErrorContains(t, err, want)
		assert.Equal(t, signer.ReasonClockSkew, signer.ReasonOf(err, ""))
	}

	require.Error(t, ask(now.Add(-time.Hour)))
	failing = assert.AnError
	require.Error(t, ask(now), "no answer says nothing")
	failing = nil
	date = "no date"
	_, err := through.RoundTrip(nil)
	require.NoError(t, err)
	require.Error(t, skew.Check(), "an answer without a date neither")
	require.NoError(t, ask(now), "the clock was set right")
	now = now.Add(time.Hour)
	require.NoError(t, skew.Check(), "time passed")
}

// TestSkewOfAClockThatIsSet: the clock is set between two responses.
func TestSkewOfAClockThatIsSet(t *testing.T) {
	wall, elapsed := epoch, 3*time.Hour
	skew := newSkew(func() time.Time { return wall }, func() time.Duration { return elapsed })
	through := skew.Wrap(roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{Header: http.Header{"Date": {wall.Format(http.TimeFormat)}}}, nil
	}))
	_, err := through.RoundTrip(nil)
	require.NoError(t, err)
	wall, elapsed = wall.Add(time.Hour), elapsed+time.Hour
	require.NoError(t, skew.Check(), "an hour without an answer")
	wall = wall.Add(time.Hour)
	require.ErrorContains(t, skew.Check(), "ahead of the API server's")
	wall = wall.Add(-2 * time.Hour)
	require.ErrorContains(t, skew.Check(), "behind the API server's")
	wall = wall.Add(time.Hour)
	require.NoError(t, skew.Check(), "it was set right")
}
