package api

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Command returns a command that a person may copy, with its arguments quoted for a shell. names
// are the parts of its arguments that the author of an object chose. If one of them is not a valid
// object name, ok is false and the text explains that instead of showing a command: quotes protect
// a shell, but not a terminal or a hasty reader.
func Command(names []string, args ...string) (text string, ok bool) {
	for _, name := range names {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			return fmt.Sprintf("no command is shown: %s is not a valid name", strconv.QuoteToASCII(Shorten(name, maxShownValue))), false
		}
	}
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = shellWord(arg)
	}
	return strings.Join(words, " "), true
}

// CommandText returns the text of Command.
func CommandText(names []string, args ...string) string {
	text, _ := Command(names, args...)
	return text
}

// LabelCommand returns the command that opts a namespace in.
func LabelCommand(namespace string, flags ...string) string {
	return CommandText([]string{namespace}, append([]string{"kubectl", "label", "namespace", namespace, LabelInject + "=" + InjectEnabled}, flags...)...)
}

// shellWord returns an argument quoted for a POSIX shell.
func shellWord(arg string) string {
	if strings.IndexFunc(arg, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./=:,", r)
	}) < 0 && arg != "" {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
