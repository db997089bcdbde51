// Package commands reads the shell commands of the documentation, and compares their output with
// the page. A comment, which readers do not see, precedes each block of sh or console:
//
//	<!-- run -->                  TestThePages runs the block on its control plane
//	<!-- run after: COMMANDS -->  as above, after commands that readers do not need; if one of them
//	                              sets a variable, as in POD=…, its value replaces POD in the block
//	<!-- run by TestX -->         another test runs the block
//	<!-- not run: WHY -->         no test runs the block
//
// The comment may have several lines, and other comments may follow before the block.
package commands

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Command is a command, with its output on the page; "" if the page does not show it.
type Command struct {
	Line    int // on the page, of the first line
	Text    string
	Printed string
}

// Block is a fenced block of shell commands.
type Block struct {
	Line     int // of the fence
	Run      bool
	After    string // COMMANDS
	By       string // TestX
	Why      string // it is not run
	Commands []Command
}

var (
	fence = regexp.MustCompile("^( *)```(.*)$")
	mark  = regexp.MustCompile(`(?s)^<!-- (?:(run)(?: after: (.*))?|run by (Test\w+)|not run: (.*)) -->$`)
	set   = regexp.MustCompile(`(?m)^\s*([A-Z]+)=`)
	here  = regexp.MustCompile(`<<-?\s*['"]?(\w+)`)
)

// Blocks returns the blocks of a page. It returns an error if blocks have no mark.
func Blocks(page string) (blocks []Block, err error) {
	var comments, unmarked []string // comments above the line
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		open := fence.FindStringSubmatch(lines[i])
		switch text := strings.TrimSpace(lines[i]); {
		case open != nil:
			end := i + 1 + slices.Index(lines[i+1:], open[1]+"```")
			if end == i {
				return nil, fmt.Errorf("line %d: the block has no end", i+1)
			}
			if open[2] == "sh" || open[2] == "console" {
				b := Block{Line: i + 1}
				if !b.read(comments) {
					unmarked = append(unmarked, fmt.Sprint(i+1))
				}
				b.Commands = split(lines[i+1:end], i+2, open[1], open[2] == "console")
				blocks = append(blocks, b)
			}
			comments, i = nil, end
		case strings.HasPrefix(text, "<!--"):
			start := i
			for ; !strings.HasSuffix(lines[i], "-->") && i+1 < len(lines); i++ {
			}
			comments = append(comments, strings.TrimSpace(strings.Join(lines[start:i+1], "\n")))
		case text != "":
			comments = nil
		}
	}
	if unmarked != nil {
		err = fmt.Errorf("the blocks at lines %s have no mark: see package test/docs/commands", strings.Join(unmarked, ", "))
	}
	return blocks, err
}

// Typed returns a command of the block, with the values of the placeholders.
func (b *Block) Typed(c Command) string {
	for _, m := range set.FindAllStringSubmatch(b.After, -1) {
		c.Text = regexp.MustCompile(`([^$\w{])`+m[1]+`\b`).ReplaceAllString(c.Text, `${1}"$$`+m[1]+`"`)
	}
	return c.Text
}

func (b *Block) read(comments []string) bool {
	for _, comment := range comments {
		if m := mark.FindStringSubmatch(comment); m != nil {
			b.Run, b.After, b.By, b.Why = m[1] != "", m[2], m[3], m[4]
			return true
		}
	}
	return false
}

// split returns the commands of a block: a whole script, or those after the prompts of a console. A
// command continues after \, | and &&, in quotes, and up to the end of a here-document.
func split(lines []string, first int, indent string, console bool) (commands []Command) {
	if !console {
		return []Command{{Line: first, Text: strings.Join(lines, "\n") + "\n"}}
	}
	open := func(text string) bool {
		if m := here.FindStringSubmatch(text); m != nil {
			return !strings.HasSuffix(text, "\n"+m[1])
		}
		return regexp.MustCompile(`(\\|\||&&)$`).MatchString(text) || strings.Count(text, "'")%2 == 1
	}
	for i, line := range lines {
		line = strings.TrimPrefix(line, indent)
		if typed, ok := strings.CutPrefix(line, "$ "); ok {
			commands = append(commands, Command{Line: first + i, Text: typed})
		} else if typed, ok := strings.CutPrefix(line, "# "); ok { // root's prompt
			commands = append(commands, Command{Line: first + i, Text: typed})
		} else if last := len(commands) - 1; last < 0 {
			continue
		} else if c := &commands[last]; c.Printed == "" && open(c.Text) {
			c.Text += "\n" + line
		} else {
			c.Printed += line + "\n"
		}
	}
	return commands
}

// varying are parts of the output that differ between runs, with their replacements for comparison.
var varying = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "CLOCK"},
	{regexp.MustCompile(`\b[0-9a-f]{8,}\b`), "HASH"},
	{regexp.MustCompile(`\b(\d+(ms|[hms]))+\b`), "AGE"},
	{regexp.MustCompile(`\d+`), "N"},
	{regexp.MustCompile(`[ \t]+`), " "},
	{regexp.MustCompile(`(?m)^(\S+ \S+ deleted) from \S+ namespace$`), "$1"}, // older versions of kubectl omit the namespace
	{regexp.MustCompile(`(?m)^ | $`), ""},
}

func normal(text string) string {
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.by)
	}
	return strings.TrimSpace(text)
}

// Shows reports whether the page shows the output, apart from times, numbers and hashes. An ellipsis
// stands for the rest of a line or, on its own line, for any lines.
func Shows(page, printed string) bool {
	pattern := "(?s)^"
	for line := range strings.Lines(normal(page)) {
		if strings.TrimSpace(line) == "…" {
			pattern += "(?:[^\n]*\n)*?"
			continue
		}
		pattern += strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSuffix(line, "\n")), "…", "[^\n]*") + "\n"
	}
	return regexp.MustCompile(pattern + "$").MatchString(normal(printed) + "\n")
}
