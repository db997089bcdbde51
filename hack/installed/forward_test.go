package installed

import (
	"bufio"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestForward: what is sent arrives in order, late if it is to be, and where the target is then.
func TestForward(t *testing.T) {
	echo, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = echo.Close() })
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn) }()
		}
	}()
	var target atomic.Value
	target.Store(echo.Addr().String())
	p, err := Forward("127.0.0.1:0", func() string { return target.Load().(string) })
	require.NoError(t, err)
	conn, err := net.Dial("tcp", p.Address())
	require.NoError(t, err)
	answers := bufio.NewReader(conn)
	ask := func(text string) time.Duration {
		start := time.Now()
		_, err := io.WriteString(conn, text+"\n")
		require.NoError(t, err)
		got, err := answers.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, text+"\n", got)
		return time.Since(start)
	}
	ask("at once")
	p.SetDelay(100*time.Millisecond, 150*time.Millisecond)
	assert.GreaterOrEqual(t, ask("late"), 100*time.Millisecond)
	target.Store("")
	nowhere, err := net.Dial("tcp", p.Address())
	require.NoError(t, err)
	_, err = nowhere.Read(make([]byte, 1))
	require.Error(t, err, "there is no target")
	require.NoError(t, p.Close())
	_, err = answers.ReadString('\n')
	require.Error(t, err, "its connections end with it")
}

func TestPick(t *testing.T) {
	assert.Empty(t, pick(nil, 7))
	assert.Equal(t, "b", pick([]string{"a", "b"}, 7))
	assert.Equal(t, "a", pick([]string{"a", "b"}, 8))
}
