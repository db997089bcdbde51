package correct

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

const (
	cert = "--tls-cert-file=/etc/servingcert/tls.crt"
	key  = "--tls-private-key-file=/etc/servingcert/tls.key"
)

// TestTextsOfPrograms: what programs and libraries print that are given a flag which they
// do not know.
func TestTextsOfPrograms(t *testing.T) {
	for _, tt := range []struct{ name, text, line string }{
		{"Go flag", "flag provided but not defined: -tls-cert-file\nUsage of /app:\n  -addr string\n    \taddress (default \":80\")\n", "flag provided but not defined: -tls-cert-file"},
		{"pflag", "unknown flag: --tls-cert-file\nUsage of app:\n      --addr string   address\n", "unknown flag: --tls-cert-file"},
		{"pflag, one dash", "unknown shorthand flag: 't' in -tls-cert-file\n", "unknown shorthand flag: 't' in -tls-cert-file"},
		{"cobra", "Error: unknown flag: --tls-cert-file\nUsage:\n  app [flags]\n\nFlags:\n  -h, --help   help for app\n", "Error: unknown flag: --tls-cert-file"},
		{"urfave/cli", "Incorrect Usage: flag provided but not defined: -tls-cert-file\n\nNAME:\n   app - serve\n", "Incorrect Usage: flag provided but not defined: -tls-cert-file"},
		{"kong", "Usage: app [flags]\n\napp: error: unknown flag --tls-cert-file\n", "app: error: unknown flag --tls-cert-file"},
		{"kingpin", "Error parsing command line arguments: unknown long flag '--tls-cert-file'\nprometheus: error: unknown long flag '--tls-cert-file'\n", "Error parsing command line arguments: unknown long flag '--tls-cert-file'"},
		{"go-flags", "unknown flag `tls-cert-file'\n", "unknown flag `tls-cert-file'"},
		{"argparse", "usage: app [-h] [--port PORT]\napp: error: unrecognized arguments: " + cert + " " + key + "\n", "app: error: unrecognized arguments: " + cert + " " + key},
		{"optparse", "Usage: app [options]\n\napp: error: no such option: --tls-cert-file\n", "app: error: no such option: --tls-cert-file"},
		{"Python getopt", "Traceback (most recent call last):\n  File \"/app.py\", line 2\ngetopt.GetoptError: option --tls-cert-file not recognized\n", "getopt.GetoptError: option --tls-cert-file not recognized"},
		{"click", "Usage: app [OPTIONS]\nTry 'app --help' for help.\n\nError: No such option: --tls-cert-file\n", "Error: No such option: --tls-cert-file"},
		{"glibc getopt_long", "app: unrecognized option '" + cert + "'\nTry 'app --help' for more information.\n", "app: unrecognized option '" + cert + "'"},
		{"musl getopt_long", "app: unrecognized option: tls-cert-file=/etc/servingcert/tls.crt\n", "app: unrecognized option: tls-cert-file=/etc/servingcert/tls.crt"},
		{"memcached", "/usr/local/bin/memcached: unrecognized option '" + cert + "'\nIllegal argument \"?\"\n", "/usr/local/bin/memcached: unrecognized option '" + cert + "'"},
		{"clap 2", "error: Found argument '--tls-cert-file' which wasn't expected, or isn't valid in this context\n\nUSAGE:\n    app [OPTIONS]\n", "error: Found argument '--tls-cert-file' which wasn't expected, or isn't valid in this context"},
		{"clap 4", "error: unexpected argument '--tls-cert-file' found\n\nUsage: app [OPTIONS]\n\nFor more information, try '--help'.\n", "error: unexpected argument '--tls-cert-file' found"},
		{"commons-cli", "org.apache.commons.cli.UnrecognizedOptionException: Unrecognized option: " + cert + "\n\tat org.apache.commons.cli.Parser\n", "org.apache.commons.cli.UnrecognizedOptionException: Unrecognized option: " + cert},
		{"picocli", "Unknown option: '" + cert + "'\nUsage: app [-h]\n", "Unknown option: '" + cert + "'"},
		{"JCommander", "Exception in thread \"main\" com.beust.jcommander.ParameterException: Was passed main parameter '--tls-cert-file' but no main parameter was defined in your arg class\n",
			"Exception in thread \"main\" com.beust.jcommander.ParameterException: Was passed main parameter '--tls-cert-file' but no main parameter was defined in your arg class"},
		{"JVM", "Unrecognized option: " + cert + "\nError: Could not create the Java Virtual Machine.\n", "Unrecognized option: " + cert},
		{"yargs", "Options:\n  --help  Show help  [boolean]\n\nUnknown arguments: tls-cert-file, tlsCertFile\n", "Unknown arguments: tls-cert-file, tlsCertFile"},
		{"node", "node: bad option: " + cert + "\n", "node: bad option: " + cert},
		{"util.parseArgs of node", "TypeError [ERR_PARSE_ARGS_UNKNOWN_OPTION]: Unknown option '--tls-cert-file'.\n    at parseArgs\n", "TypeError [ERR_PARSE_ARGS_UNKNOWN_OPTION]: Unknown option '--tls-cert-file'."},
		{"commander", "error: unknown option '" + cert + "'\n", "error: unknown option '" + cert + "'"},
		{"Perl Getopt::Long", "Unknown option: tls-cert-file\nUnknown option: tls-private-key-file\n", "Unknown option: tls-cert-file"},
		{"Ruby optparse", "/app.rb:3:in `<main>': invalid option: " + cert + " (OptionParser::InvalidOption)\n", "/app.rb:3:in `<main>': invalid option: " + cert + " (OptionParser::InvalidOption)"},
		{".NET System.CommandLine", "Unrecognized command or argument '" + cert + "'.\n\nUsage:\n  app [options]\n", "Unrecognized command or argument '" + cert + "'."},
		{".NET CommandLineParser", "app 1.0.0\n\nERROR(S):\n  Option 'tls-cert-file' is unknown.\n\n  --help       Display this help screen.\n", "  Option 'tls-cert-file' is unknown."},
		{"Boost program_options", "unrecognised option '" + cert + "'\n", "unrecognised option '" + cert + "'"},
		{"gflags", "ERROR: unknown command line flag 'tls-cert-file'\n", "ERROR: unknown command line flag 'tls-cert-file'"},
		{"Dart args", "FormatException: Could not find an option named \"tls-cert-file\".\n", "FormatException: Could not find an option named \"tls-cert-file\"."},
		{"bash", "bash: " + cert + ": invalid option\nUsage:\tbash [GNU long option] [option] ...\n", "bash: " + cert + ": invalid option"},
		{"awk", "awk: not an option: " + cert + "\n", "awk: not an option: " + cert},
		{"find", "find: unknown predicate `" + cert + "'\n", "find: unknown predicate `" + cert + "'"},
		{"a name with underscores", "FATAL:  unrecognized configuration parameter \"tls_cert_file\"\n", "FATAL:  unrecognized configuration parameter \"tls_cert_file\""},
		{"it knows the flag, and not with others", "error: --tls-cert-file needs --tls-ca-file\n", "error: --tls-cert-file needs --tls-ca-file"},
		{"the end of a long log", strings.Repeat("listening\n", 100) + "unknown flag: --tls-private-key-file", "unknown flag: --tls-private-key-file"},
		{"a level in brackets", "[ERROR] unknown flag: --tls-cert-file\n", "[ERROR] unknown flag: --tls-cert-file"},
		{"a log in JSON", `{"level":"fatal","msg":"unknown flag: --tls-cert-file"}`, `{"level":"fatal","msg":"unknown flag: --tls-cert-file"}`},
		{"the flag comes first", "--tls-cert-file: unknown option\n", "--tls-cert-file: unknown option"},
		{"colours", "\x1b[31merror:\x1b[0m unexpected argument '\x1b[33m--tls-cert-file\x1b[0m' found\n", "\x1b[31merror:\x1b[0m unexpected argument '\x1b[33m--tls-cert-file\x1b[0m' found"},
		{"lines of Windows", "starting\r\nunknown flag: --tls-cert-file\r\n", "unknown flag: --tls-cert-file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			evidence, line := evidenceOf(tt.text, []string{"tls-cert-file", "tls-private-key-file"})
			assert.Equal(t, EvidenceNamed, evidence)
			assert.Equal(t, tt.line, line)
		})
	}
}

func TestEvidence(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		given      []string
		want       Evidence
	}{
		{"nothing", "", nil, EvidenceSilent},
		{"blank lines", " \n\t\r\n", nil, EvidenceSilent},
		{"another cause", "dial tcp 10.0.0.1:5432: connect: connection refused\n", nil, EvidenceOther},

		{"getopt, bundled", "app: invalid option -- '-'\n", nil, EvidenceUsage},
		{"getopt of BusyBox", "httpd: unrecognized option: t\nBusyBox v1.36.1 multi-call binary.\n", nil, EvidenceUsage},
		{"a command", "Error: unknown command \"x\" for \"app\"\nRun 'app --help' for usage.\n", nil, EvidenceUsage},
		{"an argument that is none", "error: unexpected argument 'x' found\n", nil, EvidenceUsage},
		{"too many", "extra arguments: x\n", nil, EvidenceUsage},
		{"a directive", "Bad directive or wrong number of arguments\n", nil, EvidenceUsage},
		{"usage alone", "Usage: app [--port PORT]\n", nil, EvidenceUsage},
		{"usage of Go", "Usage of /app:\n  -addr string\n", nil, EvidenceUsage},
		{"usage in capitals", "USAGE:\n    app\n", nil, EvidenceUsage},
		{"its help is offered", "Try 'app --help' for more information.\n", nil, EvidenceUsage},

		{"usage of a program that knows the flag", "Error: connect: connection refused\nUsage:\n  app [flags]\n\nFlags:\n      --tls-cert-file string   certificate\n", nil, EvidenceOther},
		{"synopsis of a program that knows the flag", "usage: app [-h] [--tls-cert-file FILE]\n", nil, EvidenceOther},
		{"help of a program that knows the flag, with a short one", "Usage: app\n  -c, --tls-cert-file FILE  certificate\n", nil, EvidenceOther},
		{"synopsis over several lines", "usage: app [-h]\n           [--tls-cert-file FILE]\n", nil, EvidenceOther},
		{"help without usage", "  --tls-cert-file\n        certificate\npanic: no database\n", nil, EvidenceOther},
		{"a program that calls the flag deprecated", "Flag --tls-cert-file has been deprecated, use a file\npanic: no database\n", nil, EvidenceOther},
		{"a program that logs its flags", "I0501 flags.go:64] FLAG: --tls-cert-file=\"/etc/servingcert/tls.crt\"\npanic: no database\n", nil, EvidenceOther},
		{"a program that logs its flags in JSON", `{"level":"info","args":["` + cert + `"]}` + "\npanic: no database\n", nil, EvidenceOther},
		{"a program that logs its settings", `{"level":"info","tls-cert-file":"/etc/servingcert/tls.crt"}` + "\npanic: no database\n", nil, EvidenceOther},
		{"a flag that we did not give", "unknown flag: --lisen\nUsage of app:\n", nil, EvidenceOther},
		{"a flag that we did not give, without usage", "unknown flag: --lisen\n", nil, EvidenceOther},
		{"a value of another flag", "invalid argument \"x\" for \"--port\" flag: strconv.ParseInt: invalid syntax\n", nil, EvidenceOther},
		{"a longer name", "unknown flag: --tls-cert-file-2\n", nil, EvidenceOther},
		{"another prefix", "unknown flag: --my_tls-cert-file\n", nil, EvidenceOther},
		{"the kernel", "listen tcp :80: bind: invalid argument\n", nil, EvidenceOther},
		{"Redis as a client sees it", "ERR unknown command 'HELLO', with args beginning with: '3'\n", nil, EvidenceOther},
		{"much memory", "memory usage: 97%\nexiting\n", nil, EvidenceOther},

		{"another flag that was given", "error: unknown flag --web.config.file\n", []string{"web.config.file"}, EvidenceNamed},
		{"a variable that was given", "GF_SERVER_CERT_FILE: no such setting\n", []string{"GF_SERVER_CERT_FILE"}, EvidenceNamed},
		{"a word that was given", "unknown option -cert\n", []string{"cert"}, EvidenceNamed},
		{"a word that was given, in a sentence", "x509: cert has expired\n", []string{"cert"}, EvidenceOther},
		{"a short flag that was given", "flag provided but not defined: -c\n", []string{"c"}, EvidenceNamed},
		{"a name with what a pattern means something to", "a(b\n", []string{"a(b"}, EvidenceOther},
	} {
		t.Run(tt.name, func(t *testing.T) {
			evidence, line := evidenceOf(tt.text, tt.given)
			assert.Equal(t, tt.want, evidence, line)
			assert.Equal(t, tt.want == EvidenceNamed || tt.want == EvidenceUsage, line != "")
		})
	}
}

func TestAnyTextIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		evidence, line := evidenceOf(text, rapid.SliceOf(rapid.String()).Draw(t, "given"))
		assert.Contains(t, []Evidence{EvidenceNamed, EvidenceUsage, EvidenceSilent, EvidenceOther}, evidence)
		assert.Contains(t, text, line)
		assert.NotRegexp(t, `[\x00-\x1f\x7f]`, quotable(line))
		assert.LessOrEqual(t, len([]rune(quotable(line))), maxEvidence+1)
	})
}

func TestQuotable(t *testing.T) {
	assert.Equal(t, "[a b", quotable("\x1b[a\tb\x00"))
	assert.Equal(t, strings.Repeat("x", 200)+"…", quotable(strings.Repeat("x", 300)))
	assert.Equal(t, "a b", quotable(" a\xffb "))
}
