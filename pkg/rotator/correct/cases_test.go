package correct

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/servingcert/servingcert/pkg/api"
	"github.com/servingcert/servingcert/pkg/api/state"
	"github.com/servingcert/servingcert/pkg/rotator/pods"
	"github.com/servingcert/servingcert/test/rotatortest"
)

const (
	pathOfCert = "/etc/servingcert/tls.crt"
	after      = time.Second // how long most programs run until they have read their flags
)

// args has container app run with these arguments, which the webhook gave it.
func args(given ...string) rotatortest.Change {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Args = append([]string{"--port=80"}, given...) }
}

// TestCases: what follows from how real programs end that were given flags, in a pod that is
// by itself. Texts that name the flag are in TestTextsOfPrograms, too.
func TestCases(t *testing.T) {
	for _, tt := range []struct {
		name string
		code int32
		ran  time.Duration
		text string
		want Evidence // empty if it is not blamed
	}{
		// A program names what it was given: whatever its exit code, however long it ran.
		{"Go flag", 2, after, "flag provided but not defined: -tls-cert-file\nUsage of /app:\n", EvidenceNamed},
		{"pflag in a slow start", 1, 12 * time.Second, "Error: unknown flag: --tls-cert-file\n", EvidenceNamed},
		{"Spring Boot with picocli, on a busy node", 2, 58 * time.Second, "2026-05-01 12:00:00.000  INFO 1 --- [main] c.e.App : Started App in 57.1 seconds\nUnknown option: '" + cert + "'\nUsage: app [-h]\n", EvidenceNamed},
		{"help and code 0, to the termination log", 0, after, "unknown option --tls-cert-file\n", EvidenceNamed},
		{"C++ without a handler", 134, after, "terminate called after throwing an instance of 'boost::program_options::unknown_option'\n  what():  unrecognised option '" + cert + "'\n", EvidenceNamed},
		{"Rust that aborts", 134, after, "thread 'main' panicked at src/main.rs:9:5:\nunexpected argument '--tls-cert-file' found\n", EvidenceNamed},
		{"PHP", 255, after, "PHP Fatal error:  Uncaught RuntimeException: The \"--tls-cert-file\" option does not exist. in /app/console:12\n", EvidenceNamed},
		{"Erlang", 255, 3 * time.Second, "** (OptionParser.ParseError) 1 error found!\n--tls-cert-file : Unknown option\n", EvidenceNamed},
		{"sysexits", 64, after, "app: illegal option: --tls-cert-file\n", EvidenceNamed},
		{"a segmentation fault after it", 139, after, "app: unrecognized option '--tls-cert-file=" + pathOfCert + "'\n", EvidenceNamed},
		{"in another language", 1, after, "Fehler: unbekannte Option »--tls-cert-file«\n", EvidenceNamed},
		{"absl", 1, after, "FATAL Flags parsing error:\n  Unknown command line flag 'tls-cert-file'. Did you mean: tls ?\n", EvidenceNamed},
		{"oclif", 2, after, " ›   Error: Nonexistent flag: --tls-cert-file\n ›   See more help with --help\n", EvidenceNamed},
		{"Traefik", 1, after, "command traefik error: failed to decode configuration from flags: field not found, node: tls-cert-file\n", EvidenceNamed},
		{"mysqld", 7, after, "2026-05-01T12:00:00Z 0 [ERROR] [MY-000067] [Server] unknown variable 'tls-cert-file=" + pathOfCert + "'.\n", EvidenceNamed},
		{"OpenVPN", 1, after, "Options error: Unrecognized option or missing or extra parameter(s) in [CMD-LINE]:1: tls-cert-file (2.6.8)\n", EvidenceNamed},
		{"Fire", 2, after, "ERROR: Could not consume arg: " + cert + "\nUsage: app <command>\n", EvidenceNamed},

		{"BSD getopt_long", 1, after, "app: unknown option -- tls-cert-file=" + pathOfCert + "\n", EvidenceNamed},
		{"typographic quotes", 64, after, "app: unrecognized option ‘" + cert + "’\n", EvidenceNamed},
		{"colours", 2, after, "\x1b[1m\x1b[31merror:\x1b[0m unexpected argument '\x1b[33m" + cert + "\x1b[0m' found\n", EvidenceNamed},
		{"picocli", 2, after, "Unmatched arguments from index 1: '" + cert + "', '" + key + "'\nUsage: app [-hV]\n", EvidenceNamed},
		{"picocli, in a framework", 1, 3 * time.Second, "picocli.CommandLine$UnmatchedArgumentException: Unmatched argument at index 0: '" + cert + "'\n", EvidenceNamed},
		{"logfmt", 1, after, "time=2026-05-01T12:00:00Z level=fatal msg=\"unknown flag: " + cert + "\"\n", EvidenceNamed},
		{"a log in JSON", 1, 30 * time.Second, "{\"level\":\"fatal\",\"msg\":\"unknown flag: " + cert + "\"}\n", EvidenceNamed},

		// It takes it for something else, and names it.
		{"HAProxy takes it for its configuration", 1, after, "[ALERT]    (1) : config : cannot open configuration file " + cert + "\n", EvidenceNamed},
		{"redis-server without TLS", 1, after, "*** FATAL CONFIG FILE ERROR (Redis 7.2.4) ***\nReading the configuration file, at line 2\n>>> 'tls-cert-file \"" + pathOfCert + "\"'\nBad directive or wrong number of arguments\n", EvidenceUsage},
		{"redis-server takes it for its configuration", 1, after, "1:C 01 May 2026 12:00:00.000 # Fatal error, can't open config file '/data/" + cert + "': No such file or directory\n", EvidenceNamed},
		{"node takes it for its script", 1, after, "node:internal/modules/cjs/loader:1228\n  throw err;\n\nError: Cannot find module '/app/" + cert + "'\n", EvidenceNamed},
		{"python takes it for its script", 2, after, "python: can't open file '/app/" + cert + "': [Errno 2] No such file or directory\n", EvidenceNamed},
		{"php takes it for its script", 1, after, "Could not open input file: " + cert + "\n", EvidenceNamed},
		{"java takes it for its class", 1, after, "Error: Could not find or load main class --tls-cert-file=.etc.servingcert.tls.crt\n", EvidenceNamed},
		{"nginx takes it for its configuration", 1, after, "nginx: [emerg] open() \"/etc/nginx/" + cert + "\" failed (2: No such file or directory)\n", EvidenceNamed},
		{"a script runs it", 127, after, "/entrypoint.sh: exec: line 7: " + cert + ": not found\n", EvidenceNamed},
		{"tini runs it", 127, after, "[FATAL tini (7)] exec " + cert + " failed: No such file or directory\n", EvidenceNamed},
		{"Go takes it for a number", 1, after, "panic: strconv.Atoi: parsing \"" + cert + "\": invalid syntax\n", EvidenceNamed},
		{"Python takes it for a number", 1, after, "ValueError: invalid literal for int() with base 10: '" + cert + "'\n", EvidenceNamed},
		{"Go takes it for an address", 1, after, "listen tcp: address " + cert + ": missing port in address\n", EvidenceNamed},
		{"a known flag, and a file that it may not read", 1, after, "error: --tls-cert-file=" + pathOfCert + ": permission denied\n", EvidenceNamed},

		// It may not read a file that it was given.
		{"Go may not read the key", 1, after, "2026/05/01 12:00:00 open /etc/servingcert/tls.key: permission denied\n", EvidenceUsage},
		{"nginx may not read the key", 1, after, "nginx: [emerg] cannot load certificate key \"/etc/servingcert/tls.key\": BIO_new_file() failed (SSL: error:8000000D:system library::Permission denied)\n", EvidenceUsage},
		{"node may not read the key", 1, after, "Error: EACCES: permission denied, open '/etc/servingcert/tls.key'\n", EvidenceUsage},
		{"Java may not read the key", 1, after, "Caused by: java.io.FileNotFoundException: /etc/servingcert/tls.key (Permission denied)\n", EvidenceUsage},
		{"PostgreSQL refuses a key that all can read", 1, after, "FATAL:  private key file \"/etc/servingcert/tls.key\" has group or world access\n", EvidenceUsage},
		{"redis-server may not read the key", 1, after, "1:M # Failed to load private key: /etc/servingcert/tls.key: error:8000000D:system library::Permission denied\n", EvidenceUsage},
		{"a program that cannot write there", 1, after, "open /tmp/k8s-webhook-server/serving-certs/tls.crt: read-only file system\n", ""},

		// It complains of its command line, and names nothing.
		{"socat", 1, after, "2026/05/01 12:00:00 socat[1] E exactly 2 addresses required (there are 4); use option \"-h\" for help\n", EvidenceUsage},
		{"cobra counts", 1, after, "Error: accepts 1 arg(s), received 3\n", EvidenceUsage},
		{"cobra counts to none", 1, after, "Error: unknown command \"x\" for \"app\"\n", EvidenceUsage},
		{"commander counts", 1, after, "error: too many arguments. Expected 1 argument but got 3.\n", EvidenceUsage},
		{"GNU programs count", 1, after, "app: extra operand\nTry 'app --help' for more information.\n", EvidenceUsage},
		{"click counts", 2, after, "Usage: app [OPTIONS]\n\nError: Got unexpected extra arguments\n", EvidenceUsage},
		{"flag.NArg", 1, after, "app takes no arguments\n", EvidenceUsage},
		{"it wants exactly one", 64, after, "only one argument allowed\n", EvidenceUsage},
		{"click has no such argument", 2, after, "Error: Invalid value for '[PORT]': '" + cert + "' is not a valid integer.\n", EvidenceNamed},
		{"nothing was compiled in", 1, after, "TLS support is not compiled in: " + cert + "\n", EvidenceUsage},
		{"Rust shows what it got", 101, after, "thread 'main' panicked at src/main.rs:9:\ncalled `Result::unwrap()` on an `Err` value: UnexpectedArgument(\"" + cert + "\")\n", EvidenceUsage},
		{"it is read as a value", 2, after, "app: error: argument command: invalid choice: '" + cert + "' (choose from 'serve', 'migrate')\n", EvidenceUsage},
		{"it must not be there", 1, after, "no arguments expected\n", EvidenceUsage},
		{"its help is advised", 1, after, "For help, use -h\n", EvidenceUsage},
		{"it counts to one", 1, after, "1 positional argument expected, got 3\n", EvidenceUsage},
		{"a wrong count", 1, after, "bad number of arguments\n", EvidenceUsage},
		{"a name in another spelling", 1, after, "Unknown argument: tlsCertFile\n", EvidenceUsage},
		{"a help text without its head", 1, after, "app serves files\n\nOptions:\n  --port PORT\n", EvidenceUsage},
		{"Perl counts", 255, after, "Too many arguments at /usr/bin/app line 12.\n", EvidenceUsage},
		{"Thor", 1, after, "ERROR: \"app serve\" was called with arguments [\"" + cert + "\"]\nUsage: \"app serve\"\n", EvidenceUsage},
		{"docopt", 1, after, "Usage:\n  app serve [options]\n  app -h | --help\n", EvidenceUsage},
		{"too many, and code 255", 255, after, "too many arguments\n", EvidenceUsage},
		{"not a word", 1, after, "", EvidenceSilent},

		// It ends for another reason.
		{"its database is away", 1, after, "dial tcp 10.0.0.1:5432: connect: connection refused\n", ""},
		{"its database is away, and it logs its command line", 1, after, "level=info msg=starting args=\"--port=80 " + cert + "\"\nlevel=error msg=\"failed to connect to database\" err=\"no route to host\"\n", ""},
		{"its database is away, and it uses the flag", 1, after, "INFO serving TLS (tls-cert-file, tls-private-key-file)\nFATAL connect ECONNREFUSED 10.0.0.1:5432\n", ""},
		{"its database is away, and it says more of the flag", 1, after, "INFO tls-cert-file is not watched\nFATAL connect ECONNREFUSED 10.0.0.1:5432\n", ""},
		{"its database is away, after a minute", 1, time.Minute, "INFO loaded tls-cert-file\nFATAL connect ECONNREFUSED 10.0.0.1:5432\n", ""},
		{"its supervisor repeats the command line", 1, after, "command failed: /app --port 80 " + cert + ": exit status 1\npanic: no database\n", ""},
		{"npm repeats the command line", 1, after, "npm ERR! Error: connect ECONNREFUSED\nnpm ERR! command sh -c node server.js " + cert + "\n", ""},
		{"its configuration is wrong elsewhere", 1, after, "error: config.yaml: line 3: unknown field \"lisen\"\n", ""},
		{"another flag is wrong", 2, after, "unknown flag: --lisen\nUsage of app:\n", ""},
		{"a value of another flag is wrong", 2, after, "invalid argument \"x\" for \"--port\" flag: strconv.ParseInt: parsing \"x\": invalid syntax\n", ""},
		{"a directive of its configuration is wrong", 1, after, "nginx: [emerg] unknown directive \"lisen\" in /etc/nginx/nginx.conf:3\n", ""},
		{"an option of its configuration is wrong", 1, after, "error: invalid option in config file: max_conn\n", ""},
		{"it repeats its command line where something is wrong", 1, after, "level=error msg=\"invalid database url\" args=\"--port=80 " + cert + " " + key + "\"\n", ""},
		{"it repeats its flags where something is wrong", 1, after, "error: unknown host db (flags: " + cert + " " + key + ")\n", ""},
		{"a call in PHP", 255, after, "PHP Fatal error:  Uncaught ArgumentCountError: strlen() expects exactly 1 argument, 2 given in /app/index.php:3\n", ""},
		{"the certificate is read, and something else fails", 1, after, "loaded /etc/servingcert/tls.crt\nerror: connect: connection refused (cert=/etc/servingcert/tls.crt)\n", ""},
		{"the certificate is out of date", 1, after, "error: /etc/servingcert/tls.crt: certificate has expired\n", ""},
		{"it shows its configuration", 1, after, "options:\n  port: 80\npanic: no database\n", ""},
		{"a flag is deprecated", 1, after, "Flag --tls-cert-file has been deprecated, use --cert instead\npanic: no database\n", ""},
		{"the port is taken", 98, after, "listen tcp :80: bind: address already in use\n", ""},
		{"too many files", 1, after, "accept: too many open files\n", ""},
		{"a statement in SQL", 1, after, "sql: expected 2 arguments, got 3\n", ""},
		{"a call in Python", 1, after, "TypeError: main() takes 1 positional argument but 2 were given\n", ""},
		{"a call in Ruby", 1, after, "app.rb:1:in `f': wrong number of arguments (given 2, expected 1) (ArgumentError)\n", ""},
		{"a server that it asks", 1, after, "ERR wrong number of arguments for 'hset' command\n", ""},
		{"too few brokers", 1, after, "at least 3 brokers required, found 1\n", ""},
		{"it ends well, again and again", 0, after, "", ""},
		{"it ends well, and shows its usage", 0, after, "Usage: app [--port PORT]\n", ""},
		{"no word, after 12 s", 1, 12 * time.Second, "", ""},
		{"no word, and code 255", 255, after, "", ""},
		{"another cause, and code 255", 255, after, "no license\n", ""},
		{"an assertion", 134, after, "app: db.c:12: open: Assertion `fd >= 0' failed.\n", ""},
		{"killed by its liveness probe, by force", 137, 40 * time.Second, "serving on :80\n", ""},
		{"killed by its liveness probe", 143, 40 * time.Second, "shutting down\n", ""},
		{"usage, after a minute", 1, time.Minute, "Usage: app [--port PORT]\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := Situation{Now: noon, Enabled: true, Services: []Service{service("web")}, Pods: []*pods.Facts{
				pod("web-1", "web", status(false), args(cert, key), crashes(tt.text, code(tt.code), ran(tt.ran))),
			}}
			d := Decide(s)
			facts := factsOf(s, d)
			if tt.want == "" {
				assert.Empty(t, facts)
				return
			}
			if assert.Equal(t, state.Flags{fact(state.VerdictWithheld, 0, tt.want != EvidenceNamed)}, facts) {
				assert.Equal(t, tt.want, d.Changes[0].Findings[0].Evidence)
			}
			s = written(s, d)
			s.Now = noon.Add(settle)
			assert.Equal(t, []string{"web-1"}, deleted(Decide(s)))
		})
	}
}

// TestNamesThatLeadNowhere: the webhook says which flags it gave that lead to no file.
func TestNamesThatLeadNowhere(t *testing.T) {
	for text, want := range map[string]state.Flags{
		"kafka_exporter: error: unknown long flag '--server.tls.enabled', try --help\n": {fact(state.VerdictWithheld, 0, false)},
		"flag provided but not defined: -tls\nUsage of /victoria-metrics-prod:\n":       {fact(state.VerdictWithheld, 0, false)},
		"flag provided but not defined: -tlsSkipVerify\n":                               nil,
	} {
		s := Situation{Now: noon, Enabled: true, Services: []Service{service("web")}, Pods: []*pods.Facts{
			pod("web-1", "web", status(false, func(s *api.InjectionStatus) { s.Names = map[string]string{"app": "server.tls.enabled,tls"} }), crashes(text)),
		}}
		assert.Equal(t, want, factsOf(s, Decide(s)), strings.TrimSpace(text))
	}
}
