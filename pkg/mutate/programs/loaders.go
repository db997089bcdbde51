package programs

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// loaders are variables by which an interpreter, a runtime, a shell or the dynamic linker is told
// to load code, or where from, as patterns of path.Match. An entry sets files and their names
// in containers of other people. It must not be a way to run code there.
var loaders = []string{
	"LD_*", "GCONV_PATH", "GLIBC_TUNABLES", // ld.so(8), iconv(3)
	"OPENSSL_*", "KRB5_CONFIG", "GSS_MECH_CONFIG", "SASL_PATH", "ODBC*", // libraries that load others: openssl-env(7), krb5.conf(5)
	"PATH", "FPATH", "ENV", "BASH_ENV", "BASH_FUNC_*", "BASHOPTS", "SHELLOPTS", "PROMPT_COMMAND", "PS4", "ZDOTDIR", // bash(1), zsh(1)
	"HOME", "XDG_CONFIG_*", "XDG_DATA_*", // where shells, git, npm and others read what they run
	"GIT_*", "SHELL", "PAGER", "EDITOR", "VISUAL", "LESSOPEN", "LESSCLOSE", // commands that programs run
	"NODE_OPTIONS", "NODE_PATH", "NPM_CONFIG_*", "YARN_*", "BUN_*", "DENO_*",
	"PYTHON*", "PIP_*", "UV_*", "FLASK_APP",
	"PERL5*", "PERLLIB",
	"RUBY*", "GEM_HOME", "GEM_PATH", "BUNDLE_*",
	"PHPRC", "PHP_INI_SCAN_DIR",
	"LUA_*", "TCLLIBPATH", "TCL_LIBRARY", "GUILE_*", "JULIA_*", "R_*",
	"ERL_*", "*_ERL_ARGS", "ELIXIR_ERL_OPTIONS",
	"JAVA_TOOL_OPTIONS", "CLASSPATH", "JAVA_HOME", "JAVA_ARGS", "*JAVA_OPT*", "*JVM_OPT*", "*JVMFLAGS", "*_OPTS", // of the JVM, and of scripts that start one
	"DOTNET_*", "COMPLUS_*", "CORECLR_*", "COR_*", "ASPNETCORE_HOSTINGSTARTUPASSEMBLIES", "MONO_*",
	"MAKEFLAGS", "GOFLAGS",
	"GUNICORN_CMD_ARGS",
}

// harmless are values that a loader may have all the same: those with which it loads nothing.
var harmless = map[string]*regexp.Regexp{
	"GUNICORN_CMD_ARGS": regexp.MustCompile(`^--(certfile|keyfile|ca-certs)=\{[a-z]+\}( --(certfile|keyfile|ca-certs)=\{[a-z]+\})*$`),
}

// loadsCode reports whether a program may load code because of the variable. Linux compares names
// with their case, but npm does not, and nobody needs a name that differs in nothing else.
func (v Variable) loadsCode() bool {
	name := strings.ToUpper(v.Name)
	if values := harmless[v.Name]; values != nil && values.MatchString(v.Value) {
		return false
	}
	return slices.ContainsFunc(loaders, func(pattern string) bool {
		match, err := path.Match(pattern, name)
		return match || err != nil
	})
}
