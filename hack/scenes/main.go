// Command scenes breaks what servingcert stands on, or attacks it, and sees what becomes of it: make
// chaos, make hostile. Tenants work meanwhile: their Services are created and renewed, and pods are
// created through the webhook. Faults come one after the other, under two replicas of each process.
// Attacks are run by another tenant, all at once, with API priority and fairness as in a cluster.
//
// The exit code is 1 if something is not as it must be: docs/reliability.md and docs/limits.md say
// what that is. How long the work of the tenants took is printed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/hack/process"
)

// options are what may be asked of a run.
type options struct {
	setting
	scenes []*scene
}

func main() {
	process.Main("scenes", func(ctx context.Context) error {
		o, err := parse(os.Args[1:])
		if err == nil && o.proxies {
			err = leaveMounts()
		}
		if err != nil {
			return err
		}
		r, err := play(ctx, o)
		if r != nil {
			r.print(os.Stdout)
		}
		return errors.Join(err, process.Failed(r.failures()))
	})
}

func parse(args []string) (*options, error) {
	o := &options{}
	var names string
	var short bool
	var duration time.Duration
	fs := pflag.NewFlagSet("scenes faults|attacks", pflag.ContinueOnError)
	fs.StringVar(&names, "only", "", "names of faults or attacks, comma-separated (default: all)")
	fs.BoolVar(&short, "short", false, "faults: 150 Services, 3s for each, and, unless --only names them, without those of clocks and those that are like another one")
	fs.DurationVar(&duration, "duration", 2*time.Minute, "attacks: how long tenants work without them, and then under them; at least 10s")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	all := faults()
	if fs.Arg(0) == attacksName {
		all = attacks()
	}
	var err error
	o.scenes, err = process.Choose("only", names, all, func(s *scene) string { return s.name })
	switch kind := fs.Arg(0); {
	case kind == faultsName:
		o.setting = faultSetting(short)
		o.scenes = slices.DeleteFunc(o.scenes, func(s *scene) bool { return short && names == "" && (s.alike || s.clock) })
		o.moveClock = slices.ContainsFunc(o.scenes, func(s *scene) bool { return s.clock })
		o.scenes = append([]*scene{quiet()}, o.scenes...)
	case kind != attacksName:
		err = fmt.Errorf("%q: the argument must be %s or %s", kind, faultsName, attacksName)
	case duration < 10*time.Second:
		err = fmt.Errorf("--duration %s: must be at least 10s", duration)
	default:
		o.setting, o.scenes = attackSetting(duration), []*scene{round("alone", nil), round("attacked", o.scenes)}
	}
	return o, err
}

// inside is set in the environment of the program that runs in its own mount namespace.
const inside = "SERVINGCERT_SCENES_INSIDE"

// ownMounts is whether this program runs in a mount namespace of its own: a mount goes with the last
// process there, however that ends.
var ownMounts = os.Getenv(inside) != ""

// leaveMounts runs this program anew in such a namespace, where that is possible: as root, by
// unshare(1).
func leaveMounts() error {
	unshare, err := exec.LookPath("unshare")
	if err != nil || os.Geteuid() != 0 || ownMounts {
		return nil //nolint:nilerr // without unshare the disk is left out
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(unshare, append([]string{"unshare", "--mount", self}, os.Args[1:]...), append(os.Environ(), inside+"=1"))
}
