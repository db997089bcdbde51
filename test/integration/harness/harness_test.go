package harness

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// endable is a test that ends when the test wants.
type endable struct {
	testing.TB
	end    func()
	logged int
}

func (e *endable) Cleanup(f func()) { e.end = f }
func (e *endable) Log(...any)       { e.logged++ }

func TestLoggerIsSilentOnceTheTestEnded(t *testing.T) {
	test := &endable{TB: t}
	log := Logger(test)
	log.Info("before")
	require.Equal(t, 1, test.logged)
	test.end()
	log.Info("after")
	log.WithName("named").Error(os.ErrClosed, "after")
	require.Equal(t, 1, test.logged)
}
