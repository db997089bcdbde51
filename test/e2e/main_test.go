//go:build e2e

package e2e

import (
	"os"
	"testing"
)

var the *cluster

func TestMain(m *testing.M) { os.Exit(m.Run()) }
