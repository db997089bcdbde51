package programs

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBareIsOfImagesThatGetFlags(t *testing.T) {
	for name, c := range map[string]struct{ entry, mistake string }{
		"flags and images": {`{program: a, images: [a], bare: true, flags: ["--cert={cert}"], reload: restart}`, ""},
		"no images":        {`{program: a, executables: [a], bare: true, flags: ["--cert={cert}"], reload: restart}`, `line 1: program "a": bare: says what the images do with arguments: must be with flags and images`},
		"variables only":   {`{program: a, images: [a], bare: true, env: [{name: CERT, value: "{cert}"}], reload: restart}`, `line 1: program "a": bare: says what the images do with arguments: must be with flags and images`},
	} {
		t.Run(name, func(t *testing.T) {
			table, err := Parse([]byte("- " + c.entry))
			if c.mistake != "" {
				require.EqualError(t, err, c.mistake)
				return
			}
			require.NoError(t, err)
			assert.True(t, table.All()[0].Bare)
		})
	}
}

func TestGeneralNamesAreNoExecutablesOfAProgram(t *testing.T) {
	for _, name := range []string{"manager", "controller", "operator", "app", "java"} {
		_, err := Parse([]byte(`- {program: a, executables: [` + name + `], none: "Put a proxy in front."}`))
		require.EqualError(t, err, `line 1: program "a": executables: "`+name+`": runs all kinds of programs`)
	}
}

func TestPortsAreNumbersOfPorts(t *testing.T) {
	for entry, mistake := range map[string]string{
		`{program: a, images: [a], flags: ["--cert={cert}"], alsoPorts: [0], reload: restart}`: `line 1: program "a": alsoPorts: 0: must be from 1 to 65535`,
		`{program: a, images: [a], flags: ["--cert={cert}"], ports: [65536], reload: restart}`: `line 1: program "a": ports: 65536: must be from 1 to 65535`,
		`{program: a, images: [a], startTLS: {0: smtp}, none: "Put a proxy in front."}`:        `line 1: program "a": startTLS: 0: "smtp": must be a port from 1 to 65535, and one of tls, postgres, mysql, smtp, imap, ldap, xmpp, xmpp-server, nats`,
		`{program: a, images: [a], startTLS: {25: ftp}, none: "Put a proxy in front."}`:        `line 1: program "a": startTLS: 25: "ftp": must be a port from 1 to 65535, and one of tls, postgres, mysql, smtp, imap, ldap, xmpp, xmpp-server, nats`,
		`{program: a, images: [a], flags: ["--cert={cert}"], tlsPorts: [80], reload: restart}`: `line 1: program "a": tlsPorts: must be with none: with flags or env it serves TLS with the certificate that it is given`,
		`{program: a, images: [a], tlsPorts: [0], none: "x"}`:                                  `line 1: program "a": tlsPorts: 0: must be from 1 to 65535`,
		`{program: a, images: [a], tlsOff: ["--x"], none: "x"}`:                                `line 1: program "a": tlsOff: must be with tlsPorts`,
		`{program: a, images: [a], tlsPorts: [80], tlsOff: ["x y"], none: "x"}`:                `line 1: program "a": tlsOff: "x y": must be a flag with its dashes or the name of a variable`,
		`{program: a, images: [a], alsoPorts: [9000], none: "Put a proxy in front."}`:          `line 1: program "a": alsoPorts: must be with flags or env`,
	} {
		_, err := Parse([]byte("- " + entry))
		require.EqualError(t, err, mistake)
	}
}

func TestArgumentsAndMounts(t *testing.T) {
	for entry, mistake := range map[string]string{
		`{program: a, arguments: [--a, --b], mount: /tmp/m, reload: restart}`:                        `line 1: program "a": arguments: must be at least 2, and with ports and moves: true`,
		`{program: a, arguments: [--a], mount: /tmp/m, ports: [1], moves: true, reload: restart}`:    `line 1: program "a": arguments: must be at least 2, and with ports and moves: true`,
		`{program: a, arguments: [--a, b], mount: /tmp/m, ports: [1], moves: true, reload: restart}`: `line 1: program "a": arguments: "b": must be a flag with two dashes and no value`,
		`{program: a, images: [a], mount: /tmp/m, none: "x", reload: restart}`:                       `line 1: program "a": none: must be alone: the program also has flags, env, config, files, ports or privateKey`,
		`{program: a, images: [a], mount: "m", reload: restart}`:                                     `line 1: program "a": mount: "m": must be a directory below /tmp, such as /tmp/certs`,
		`{program: a, images: [a], mount: "/tmp", reload: restart}`:                                  `line 1: program "a": mount: "/tmp": must be a directory below /tmp, such as /tmp/certs`,
		`{program: a, images: [a], mount: "/tmp/m/", reload: restart}`:                               `line 1: program "a": mount: "/tmp/m/": must be a directory below /tmp, such as /tmp/certs`,
		`{program: a, images: [a], mount: "/tmp/../usr/bin", reload: restart}`:                       `line 1: program "a": mount: "/tmp/../usr/bin": must be a directory below /tmp, such as /tmp/certs`,
		`{program: a, images: [a], mount: "/etc/cron.d", reload: restart}`:                           `line 1: program "a": mount: "/etc/cron.d": must be a directory below /tmp, such as /tmp/certs`,
		`{program: a, images: [a], mount: "/tmp/a:ro", reload: restart}`:                             `line 1: program "a": mount: "/tmp/a:ro": must be a directory below /tmp, such as /tmp/certs`,
	} {
		_, err := Parse([]byte("- " + entry))
		require.EqualError(t, err, mistake)
	}
}

// Whoever may write the table of programs sets files in other people's containers, but cannot run
// code there: the value could name a file of the entry.
func TestNoEntryLoadsCode(t *testing.T) {
	parse := func(name, value string) error {
		_, err := Parse([]byte(`- {program: a, images: [a], env: [{name: "` + name + `", value: "` + value + `"}], config: {x: "{cert}"}, reload: restart}`))
		return err
	}
	for _, name := range []string{
		"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GCONV_PATH", "OPENSSL_CONF", "PATH", "ENV", "BASH_ENV", "BASH_FUNC_ls", "SHELLOPTS", "PS4", "ZDOTDIR", "GIT_SSH_COMMAND",
		"NODE_OPTIONS", "NODE_PATH", "npm_config_node_options", "NPM_CONFIG_NODE_OPTIONS", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONWARNINGS",
		"PERL5OPT", "PERL5LIB", "RUBYOPT", "RUBYLIB", "GEM_PATH", "BUNDLE_GEMFILE", "PHPRC", "PHP_INI_SCAN_DIR", "LUA_INIT", "LUA_CPATH_5_3", "ERL_FLAGS", "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
		"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_OPTS", "ES_JAVA_OPTS", "JVM_OPTS", "CLASSPATH", "DOTNET_STARTUP_HOOKS", "CORECLR_PROFILER_PATH", "GUNICORN_CMD_ARGS",
		"HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "SHELL", "FPATH", "GLIBC_TUNABLES", "BUN_INSPECT_PRELOAD", "DENO_DIR", "PERL5SHELL", "RUBYGEMS_GEMDEPS", "RUBYSHELL",
		"CATALINA_OPTS", "KAFKA_OPTS", "MAVEN_OPTS", "JVMFLAGS", "SERVER_JVMFLAGS", "JAVA_HOME", "JAVA_ARGS", "DOTNET_PROFILER_PATH", "DOTNET_ROOT", "COMPlus_StartupHooks",
		"DOTNET_HOSTINGSTARTUPASSEMBLIES", "MONO_PATH", "R_PROFILE_USER", "JULIA_LOAD_PATH", "TCLLIBPATH", "GUILE_LOAD_PATH", "PIP_CONFIG_FILE", "UV_INDEX_URL", "YARN_RC_FILENAME",
		"KRB5_CONFIG", "GSS_MECH_CONFIG", "SASL_PATH", "ODBCSYSINI", "OPENSSL_CONF_INCLUDE", "MAKEFLAGS", "GOFLAGS", "FLASK_APP", "LESSOPEN", "PAGER", "EDITOR",
		"node_options", "Ld_Preload",
	} {
		require.EqualError(t, parse(name, "--require {dir}/x"), `line 1: program "a": env: "`+name+`": a program may load code because of it: must be a variable that configures its certificate`)
	}
	for _, name := range []string{"NODE_EXTRA_CA_CERTS", "NODE_ENV", "PERL_LWP_SSL_CA_FILE", "TLS_PATH", "GITEA__server__CERT_FILE", "OLD_PATH", "HOME_URL", "SERVE_OPTIONS", "PIPELINE_TLS", "KC_HTTPS_CERTIFICATE_FILE"} {
		require.NoError(t, parse(name, "{dir}/x"))
	}
	for value, harmless := range map[string]bool{
		"--certfile={cert} --keyfile={key}":                    true,
		"--certfile={cert} --keyfile={key} --ca-certs={ca}":    true,
		"--certfile={cert} --config={dir}/x":                   false,
		"--certfile={cert} -c python:os":                       false,
		"--certfile={cert}  --keyfile={key}":                   false,
		"--certfile={cert} --keyfile={key} --pythonpath={dir}": false,
		"--certfile={cert}\\n--keyfile={key}":                  false,
	} {
		assert.Equal(t, harmless, parse("GUNICORN_CMD_ARGS", value) == nil, value)
	}
}
