package commandline

import (
	"regexp"
	"slices"
	"strings"
)

// reference matches a variable in a command line, as the kubelet expands it.
var reference = regexp.MustCompile(`\$\(([^()]*)\)`)

// Expanded returns the tokens with the variables that have a value replaced. variables is called
// once if the line contains any.
func (l Line) Expanded(variables func() map[string]string) []string {
	tokens := l.Tokens
	var values map[string]string
	for i, t := range tokens {
		if !strings.Contains(t, "$(") {
			continue
		}
		if values == nil {
			values, tokens = variables(), slices.Clone(tokens)
		}
		tokens[i] = reference.ReplaceAllStringFunc(t, func(ref string) string {
			if v, ok := values[ref[2:len(ref)-1]]; ok {
				return v
			}
			return ref
		})
	}
	return tokens
}

// ExpandedSize returns the size of the words in bytes with variables replaced as in [Line.Expanded].
// It stops counting beyond most. variables is called once if a word contains any.
func ExpandedSize(words []string, variables func() map[string]string, most int) int {
	var values map[string]string
	size := 0
	for _, word := range words {
		size += len(word)
		if values == nil && strings.Contains(word, "$(") {
			values = variables()
		}
		size += growth(word, values, most-size)
	}
	return size
}

// growth returns by how many bytes a word grows if its variables are replaced; negative if it
// shrinks. It stops counting beyond most.
func growth(word string, values map[string]string, most int) int {
	grown := 0
	for grown <= most {
		open := strings.Index(word, "$(")
		if open < 0 {
			break
		}
		word = word[open+2:]
		end := strings.IndexAny(word, "()")
		if end < 0 {
			break
		}
		if value, ok := values[word[:end]]; ok && word[end] == ')' {
			grown += len(value) - len("$()") - end
			word = word[end+1:]
		}
	}
	return grown
}
