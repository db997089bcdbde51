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
	pflag.StringSliceVar(&required, "require", nil, "commands that must be installed, such as openssl,curl,gnutls-cli,python3,java,keytool,node")
	pflag.BoolVar(&update, "update", false, "write the table into "+docFile)
	pflag.Parse()
	log.SetOutput(io.Discard) // cfssl logs every certificate
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
	fmt.Printf("\nno hole; %d pairs of server and bundle, each tested with every stack, in %s\n", len(m.pairs), time.Since(start).Round(time.Second))
	if update {
		return writeInto(docFile, m.table())
	}
	return nil
}

// known returns an error for names that no stack needs: they would have no effect.
func known(required []string) error {
	var names []string
	for _, s := range stacks() {
		names = append(names, s.needs...)
	}
	for _, name := range required {
		if !slices.Contains(names, name) {
			return fmt.Errorf("--require: %q: must be one or more of %s", name, strings.Join(slices.Compact(names), ", "))
		}
	}
	return nil
}

// writeInto replaces the text between the marks in a file.
func writeInto(file, text string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(data), docBegin)
	_, after, ended := strings.Cut(rest, docEnd)
	if !found || !ended {
		return fmt.Errorf("%s: has no marks %q and %q", file, strings.TrimSpace(docBegin), strings.TrimSpace(docEnd))
	}
	return os.WriteFile(file, []byte(before+docBegin+text+docEnd+after), 0o644)
}
