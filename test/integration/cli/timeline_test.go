package cli

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var pictures = flag.String("pictures", "", "directory to write the timeline of a real succession to, as a terminal shows it")

// shownTimeline is the part of -o json that the test looks at.
type shownTimeline struct {
	APIVersion, Kind string
	Lanes            []struct {
		Kind, Name, About string
		Spans             []struct {
			Kind        string
			From, Until time.Time
		}
		Events []struct {
			Kind string
			At   time.Time
		}
	}
	Missing []string
}

func (s shownTimeline) kinds(lane int) (spans, events []string) {
	for _, span := range s.Lanes[lane].Spans {
		spans = append(spans, span.Kind)
	}
	for _, event := range s.Lanes[lane].Events {
		events = append(events, event.Kind)
	}
	return spans, events
}

// paint writes what a command shows on a terminal where flag -pictures says: what the documents
// show. script(1) is the terminal.
func paint(t *testing.T, name string, args ...string) {
	t.Helper()
	if *pictures == "" {
		return
	}
	path := filepath.Join(*pictures, name)
	command := "stty cols 118; " + filepath.Join(binaries, "kubectl-servingcert") + " " + strings.Join(args, " ")
	cmd := exec.CommandContext(t.Context(), "script", "-qec", command, path+".ansi")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+plane.KubeconfigFile(), "TERM=xterm-256color", "LC_ALL=C.UTF-8", "NO_COLOR=")
	require.NoError(t, cmd.Run())
}
