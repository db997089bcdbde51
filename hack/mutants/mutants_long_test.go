//go:build long

package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatNoTestNoticesIsPrinted(t *testing.T) {
	out := &bytes.Buffer{}
	require.NoError(t, run(t.Context(), out, "./testdata/month", []string{"./testdata/month"}, 2))
	require.Equal(t, `testdata/month/month.go:12:16: day > days → day >= days
testdata/month/month.go:46:5: long → !(long) (no test gets here)
testdata/month/month.go:47:33: '0'+month → '0' - month (no test gets here)
github.com/servingcert/servingcert/hack/mutants/testdata/month: 18 changes, 15 noticed, 1 not, and no test gets to 2
`, out.String())
}

func TestTestsOfOtherPackagesNoticeToo(t *testing.T) {
	out := &bytes.Buffer{}
	require.NoError(t, run(t.Context(), out, "./testdata/month", []string{"./testdata/month", "./testdata/month/caller"}, 2))
	require.NotContains(t, out.String(), "day > days")
	require.Contains(t, out.String(), "18 changes, 16 noticed, 0 not")
}

func TestWhatFailsWithoutAChange(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), &bytes.Buffer{}, "./testdata/nothing", nil, 1), "is not one package that compiles")
	require.ErrorContains(t, run(t.Context(), &bytes.Buffer{}, "./testdata/month", []string{"./testdata/month/fails"}, 1), "fail without any change")
}
