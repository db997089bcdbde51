package results

import (
	"bytes"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestExponent(t *testing.T) {
	sizes := []int{500, 2000, 10000, 30000}
	for _, expected := range []float64{-1, 0, 0.5, 1, 2} {
		row := Row{At: map[int]float64{}}
		for _, n := range sizes {
			row.At[n] = 7 * math.Pow(float64(n), expected)
		}
		e, ok := row.Exponent()
		assert.True(t, ok)
		assert.InDelta(t, expected, e, 1e-9)
	}
	// By hand: the logarithms to base 10 are (1,1), (2,3), (3,4), whose line has slope 1.5.
	row := Row{At: map[int]float64{10: 10, 100: 1000, 1000: 10000}}
	e, ok := row.Exponent()
	assert.True(t, ok)
	assert.InDelta(t, 1.5, e, 1e-9)
}

func TestExponentOfTooLittle(t *testing.T) {
	for _, at := range []map[int]float64{nil, {500: 1}, {500: 1, 2000: 0}, {0: 1, 2000: 3}} {
		row := Row{At: at}
		_, ok := row.Exponent()
		assert.False(t, ok, "%v", at)
	}
	row := Row{At: map[int]float64{500: 3, 2000: 0, 10000: 60}}
	e, ok := row.Exponent()
	assert.True(t, ok, "a figure of 0 has no logarithm and is left out")
	assert.InDelta(t, 1, e, 1e-9)
}

func TestPrint(t *testing.T) {
	r, err := Open("")
	require.NoError(t, err)
	r.Set("Cold issue", "time", "s", 2000, 40)
	r.Set("Restart", "lists", "", 500, 3)
	r.Set("Cold issue", "time", "s", 500, 1)
	r.Set("Cold issue", "time", "s", 500, 10) // measured again
	r.Set("Restart", "time", "s", 500, 3)
	r.Set("Cold issue", "CPU a certificate", "ms", 500, 1.2345)
	r.Set("Cold issue", "CPU a certificate", "ms", 2000, 12.345)
	r.Set("Cold issue", "bytes in etcd", "", 2000, 4143.4)
	var out bytes.Buffer
	r.Print(&out)
	assert.Equal(t, `
### Cold issue

| what | 500 | 2000 | exponent |
| --- | --: | --: | --: |
| time | 10 s | 40 s | 1.00 |
| CPU a certificate | 1.23 ms | 12.3 ms | 1.66 |
| bytes in etcd |  | 4143 |  |

### Restart

| what | 500 | exponent |
| --- | --: | --: |
| lists | 3 |  |
| time | 3 s |  |
`, out.String())
	require.NoError(t, r.Save(), "kept nowhere")
}

func TestResultsAreKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scale.json")
	first, err := Open(file)
	require.NoError(t, err)
	first.Set("Restart", "time", "s", 500, 1.5)
	require.NoError(t, first.Save())
	second, err := Open(file)
	require.NoError(t, err)
	assert.Equal(t, first.Rows, second.Rows)
	second.Set("Restart", "time", "s", 2000, 3)
	assert.Len(t, second.Rows, 1, "the next size of the same row")
}
