package programs

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// loaders are variables that make an interpreter, a runtime, a shell or the dynamic linker load
// code, or set where from, as patterns of path.Match. An entry sets files and their names in
// other people's containers. It must not be a way to run code there.
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

// harmless are permitted values of loaders, with which they load nothing.
var harmless = map[string]*regexp.Regexp{
	"GUNICORN_CMD_ARGS": regexp.MustCompile(`^--(certfile|keyfile|ca-certs)=\{[a-z]+\}( --(certfile|keyfile|ca-certs)=\{[a-z]+\})*$`),
}

// loadsCode reports whether a program may load code because of the variable. It ignores the case
// of names, as npm does.
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
