package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

const (
	docFile  = "docs/tls-stacks.md"
	docBegin = "<!-- written by: go run ./test/tlsstacks --update -->\n"
	docEnd   = "<!-- end of what is written -->\n"
)

func main() {
	var (
		required []string
		update   bool
	)
	pflag.StringSliceVar(&required, "require", nil, "commands that have to be installed, such as openssl,curl,gnutls-cli,python3,java,keytool,node")
	pflag.BoolVar(&update, "update", false, "write the table into "+docFile)
	pflag.Parse()
	log.SetOutput(io.Discard) // where cfssl tells of every certificate
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := execute(ctx, required, update)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "tlsstacks:", err)
		os.Exit(1)
	}
}

func execute(ctx context.Context, required []string, update bool) error {
	if err := known(required); err != nil {
		return err
	}
	start := time.Now()
	sc, err := newScene(start)
	if err != nil {
		return err
	}
	m, err := try(ctx, sc, stacks(), start)
	if err != nil {
		return err
	}
	fmt.Print(m.table())
	if holes := m.holes(required); len(holes) > 0 {
		return fmt.Errorf("%d holes:\n%s", len(holes), strings.Join(holes, "\n"))
	}
	fmt.Printf("\nno hole; %d servers with bundles, each tried by every stack, in %s\n", len(m.pairs), time.Since(start).Round(time.Second))
	if update {
		return writeInto(docFile, m.table())
	}
	return nil
}

// known refuses names that no stack needs: they would require nothing.
func known(required []string) error {
	var names []string
	for _, s := range stacks() {
		names = append(names, s.needs...)
	}
	for _, name := range required {
		if !slices.Contains(names, name) {
			return fmt.Errorf("--require: %q: must be some of %s", name, strings.Join(slices.Compact(names), ", "))
		}
	}
	return nil
}

// writeInto replaces what is between the marks in a file.
func writeInto(file, text string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(data), docBegin)
	_, after, ended := strings.Cut(rest, docEnd)
	if !found || !ended {
		return fmt.Errorf("%s: the marks %q and %q are not there", file, strings.TrimSpace(docBegin), strings.TrimSpace(docEnd))
	}
	return os.WriteFile(file, []byte(before+docBegin+text+docEnd+after), 0o644)
}
