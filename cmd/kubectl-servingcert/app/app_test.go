package app

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets scripts run this program as a command.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"kubectl-servingcert": func() {
			os.Exit(run(context.Background(), arguments(os.Args), standard(), DefaultTiming()))
		},
		completer: func() {
			os.Exit(run(context.Background(), arguments(os.Args), standard(), DefaultTiming()))
		},
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", UpdateScripts: os.Getenv("UPDATE") != ""})
}

func TestExitCodes(t *testing.T) {
	for want, argLists := range map[int][][]string{
		exitOK:    {nil, {"--help"}, {"inject", "--help"}, {"doctor", "--help"}, {"analyze", "-f", "../../../pkg/doctor/testdata/good.yaml"}, {"plan", "-f", "../../../pkg/plan/testdata/shop.yaml"}},
		exitError: {{"analyze", "-f", "../../../pkg/doctor/testdata/three.yaml"}, {"inject", "-f", "missing.yaml"}, {"plan", "-f", "missing.yaml"}},
		exitUsage: {{"analyze", "-f", "missing.yaml"}, {"analyze"}, {"doctor", "--kubeconfig", "missing"}, {"conjure"}, {"inject"}, {"inject", "--no-such-flag"}, {"plan", "-A", "-n", "x"}, {"inject", "-f", "x", "-o", "json"}, {"inject", "x"}},
	} {
		for _, args := range argLists {
			if got := run(t.Context(), args, streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard}, DefaultTiming()); got != want {
				t.Errorf("%v: exit code %d, want %d", args, got, want)
			}
		}
	}
}
