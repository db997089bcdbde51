// Package app implements the program hostsync: its flags, their validation, and Run. The command only
// calls Main, so that tests can run the program in their own executable.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/servingcert/servingcert/cmd/internal/command"
	"github.com/servingcert/servingcert/cmd/internal/port"
	"github.com/servingcert/servingcert/pkg/hostfiles"
	"github.com/servingcert/servingcert/pkg/hostfiles/hostpath"
	"github.com/servingcert/servingcert/pkg/hostfiles/hostsync"
	"github.com/servingcert/servingcert/pkg/hostfiles/store"
)

const about = `hostsync copies the certificate in a directory, such as a mounted Secret, to stores on its host. Each
update is atomic, and an action makes the programs that read a store load it. A store keeps its content
if the source is missing or its certificate is worse.`

const usage = `  hostsync --config FILE [flags]                 keep the stores up to date until stopped
  hostsync --config FILE --once [flags]          update the stores once, and exit
  hostsync check-config --config FILE [flags]    validate a configuration
  hostsync remove --store NAME [flags]           remove a store, and restore the files that it replaced
  hostsync ready [flags]                         report whether the running hostsync has all stores ready
`

// Config holds the values of flags and environment variables.
type Config struct {
	File, Dir, From, Address, Host, Store string
	Once                                  bool

	stores []hostfiles.Store
}

// Main runs the program with the arguments and streams of the process, and exits.
func Main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)) }

func (c *Config) register(fs *pflag.FlagSet) {
	fs.StringVar(&c.File, "config", "", "configuration file that lists the stores (docs/hosts.md)")
	fs.StringVar(&c.Dir, "dir", "/etc/servingcert", "directory of the host that contains one directory for each store")
	fs.StringVar(&c.From, "from", "", "directory with tls.crt, tls.key and ca.crt, for stores without a from field")
	fs.StringVar(&c.Address, "address", "127.0.0.1:15444", "IP address and port on which /metrics, /readyz and /healthz are served over HTTP")
	fs.StringVar(&c.Host, "host", "", "name of the host, which determines when it acts within a window (default: $NODE_NAME, else the hostname)")
	fs.BoolVar(&c.Once, "once", false, "update the stores once, ignoring windows, and exit; the exit code is 1 if a store needs attention")
	fs.StringVar(&c.Store, "store", "", "name of the store, for remove")
}

func (c *Config) validate(command string, getenv func(string) string) error {
	if !filepath.IsAbs(c.Dir) {
		return fmt.Errorf("--dir: %q: must be an absolute path", c.Dir)
	}
	if c.From != "" && !filepath.IsAbs(c.From) {
		return fmt.Errorf("--from: %q: must be an absolute path", c.From)
	}
	if c.From != "" {
		c.From = filepath.Clean(c.From)
	}
	if a, err := netip.ParseAddrPort(c.Address); err != nil || a.Port() == 0 {
		return fmt.Errorf("--address: %q: must be an IP address and a port, such as 127.0.0.1:15444", c.Address)
	}
	if c.Host == "" {
		c.Host = getenv("NODE_NAME")
	}
	if c.Host == "" {
		c.Host, _ = os.Hostname()
	}
	switch fault := hostfiles.StoreNameFault(c.Store); {
	case command == "ready":
		return nil
	case command == "remove" && fault != "":
		return fmt.Errorf("--store: %q: %s", c.Store, fault)
	case command == "remove":
		return nil
	case c.File == "":
		return errors.New(`--config: "": must be a file`)
	case command == "check-config":
		return c.load(os.Open)
	}
	return c.load(hostpath.OpenOwnFile) // it names programs to run
}

func (c *Config) load(open func(name string) (*os.File, error)) error {
	f, err := open(c.File)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, hostfiles.MaxConfig+1))
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	config, err := hostfiles.Parse(data, c.From)
	if err != nil {
		return fmt.Errorf("--config: %s: %w", c.File, err)
	}
	c.stores = config.Stores
	return nil
}

// commands maps the subcommands to functions; without a subcommand, hostsync maintains the stores.
var commands = map[string]func(c *Config, stdout io.Writer) error{
	"check-config": checkConfig,
	"remove":       remove,
	"ready":        ready,
}

func run(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	c, name := &Config{}, ""
	if len(args) > 0 && commands[args[0]] != nil {
		name, args = args[0], args[1:]
	}
	return command.Main(args, stdout, stderr, command.Command{
		Name: "hostsync", About: about, Usage: usage, Flags: c.register,
		Arguments: "only check-config, remove and ready are commands",
		Validate:  func() error { return c.validate(name, getenv) },
		Run: func(ctx context.Context) error {
			if name != "" {
				return commands[name](c, stdout)
			}
			return c.keep(ctx, slog.New(slog.NewTextHandler(stderr, nil)))
		},
	})
}

func (c *Config) keep(ctx context.Context, log *slog.Logger) error {
	s := hostsync.New(hostsync.Config{Stores: c.stores, Root: c.Dir, Host: c.Host, Once: c.Once, Clock: time.Now, Log: log})
	if c.Once {
		if err := s.Run(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return errors.New("interrupted: the stores may not be up to date")
		}
		if text := s.NotReady(); text != "" {
			return errors.New(strings.TrimSuffix(text, "\n"))
		}
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go c.serve(ctx, s.Handler(), log)
	return s.Run(ctx)
}

// listenAgain is the delay before the next attempt to listen on an address in use.
const listenAgain = 2 * time.Second

// serve serves the handler on the address until ctx ends. While another process of the host uses the
// address, serve retries, and the stores are still maintained.
func (c *Config) serve(ctx context.Context, handler http.Handler, log *slog.Logger) {
	for logged := false; ; logged = true {
		err := port.Small(handler, log).Serve(ctx, c.Address)
		if err == nil {
			if logged {
				log.Info("metrics and readiness are served", "address", c.Address)
			}
			return
		}
		if !logged {
			log.Error("metrics and readiness are not served, but stores are still maintained: free the address, or set another --address", "address", c.Address, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(listenAgain):
		}
	}
}

func checkConfig(c *Config, stdout io.Writer) error {
	for _, s := range c.stores {
		_, err := fmt.Fprintf(stdout, "store %s: %s from %s; action: %s\n", s.Name, s.Kind, s.From, s.Action)
		if err != nil {
			return err
		}
	}
	return nil
}

// remove removes a store and prints the paths that it restored.
func remove(c *Config, stdout io.Writer) error {
	if !store.Exists(c.Dir, c.Store) {
		return fmt.Errorf("--store: %q: %s has no store of that name", c.Store, c.Dir)
	}
	s, err := store.Open(c.Dir, &hostfiles.Store{Name: c.Store}, time.Now)
	if err != nil {
		return err
	}
	if err := s.Lock(context.Background(), nil); err != nil {
		s.Close()
		return fmt.Errorf("--store: %q: %w: stop it first", c.Store, err)
	}
	restored, err := s.Remove()
	for _, path := range restored {
		_, _ = fmt.Fprintf(stdout, "restored %s\n", path)
	}
	if err == nil {
		_, err = fmt.Fprintf(stdout, "removed store %s\n", c.Store)
	}
	return err
}

// Bounds of ready.
const (
	readyTimeout = 10 * time.Second
	maxAnswer    = 8 << 10
)

// ready prints the readiness of the running hostsync. If it runs as an exec probe, the kubelet shows
// the text in an event.
func ready(c *Config, stdout io.Writer) error {
	client := &http.Client{Timeout: readyTimeout, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // whatever has the port must not choose what root requests
	}}
	response, err := client.Get("http://" + c.Address + "/readyz")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSuffix(string(text), "\n"))
	}
	_, err = io.WriteString(stdout, command.Printable(string(text)))
	return err
}
