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
	"LD_*", "GCONV_PATH", // ld.so(8), iconv(3)
	"OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES", // openssl-env(7)
	"PATH", "ENV", "BASH_ENV", "BASH_FUNC_*", "BASHOPTS", "SHELLOPTS", "PROMPT_COMMAND", "PS4", "ZDOTDIR", // bash(1), zsh(1)
	"GIT_*", // git(1): commands that it runs
	"NODE_OPTIONS", "NODE_PATH", "NPM_CONFIG_*", "BUN_OPTIONS",
	"PYTHON*",
	"PERL5OPT", "PERL5LIB", "PERL5DB", "PERLLIB",
	"RUBYOPT", "RUBYLIB", "GEM_HOME", "GEM_PATH", "BUNDLE_*",
	"PHPRC", "PHP_INI_SCAN_DIR",
	"LUA_*",
	"ERL_*", "*_ERL_ARGS", "ELIXIR_ERL_OPTIONS",
	"JAVA_TOOL_OPTIONS", "CLASSPATH", "*JAVA_OPT*", "*JVM_OPT*", // of the JVM, and of scripts that start one
	"DOTNET_STARTUP_HOOKS", "DOTNET_ADDITIONAL_DEPS", "DOTNET_SHARED_STORE", "CORECLR_*", "COR_*", "ASPNETCORE_HOSTINGSTARTUPASSEMBLIES",
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
