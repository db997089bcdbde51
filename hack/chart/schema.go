package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// schemaFile returns values.schema.json. It only allows keys that are in values.yaml.
func schemaFile(values []value) ([]byte, error) {
	schema := group(values)
	schema["$schema"] = "https://json-schema.org/draft-07/schema#"
	schema["title"] = "Values of the Helm chart of servingcert"
	// If the chart is a subchart, Helm passes the parent's global values.
	schema["properties"].(map[string]any)["global"] = map[string]any{"type": "object"}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(schema)
	return out.Bytes(), err
}

func group(values []value) map[string]any {
	properties := map[string]any{}
	for _, v := range values {
		s := map[string]any{}
		if v.children != nil {
			s = group(v.children)
		}
		for key, said := range v.schema {
			s[key] = said
		}
		if v.description != "" {
			s["description"] = v.description
		}
		if v.children == nil {
			s["default"] = v.def
		}
		properties[v.key] = s
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
}

const pageHead = `# Values of the Helm chart

**What can be set when servingcert is installed with Helm?** [Installing](install.md) says how, and what differs
between platforms. With ` + "`null`" + ` a flag is not given, and the program's own default counts
([reference](reference.md)); of a setting of one process, ` + "`null`" + ` means what ` + "`pods`" + ` says.

This page is generated from the comments in [values.yaml](../deploy/chart/values.yaml), as is the schema that
Helm checks values against: a key that is not on this page is an error.
`

// page returns docs/chart.md.
func page(values []value) []byte {
	var out bytes.Buffer
	out.WriteString(pageHead)
	var single []value
	for _, v := range values {
		if v.children == nil {
			single = append(single, v)
		}
	}
	table(&out, "General", "", single)
	for _, v := range values {
		if v.children != nil {
			table(&out, "`"+v.key+"`", v.description, leaves(v.children))
		}
	}
	return out.Bytes()
}

// leaves returns the values that are not groups.
func leaves(values []value) []value {
	var found []value
	for _, v := range values {
		if v.children == nil {
			found = append(found, v)
			continue
		}
		found = append(found, leaves(v.children)...)
	}
	return found
}

func table(out *bytes.Buffer, title, about string, values []value) {
	fmt.Fprintf(out, "\n## %s\n\n", title)
	if about != "" {
		fmt.Fprintf(out, "%s\n\n", wrap(linked(about), 110))
	}
	out.WriteString("| value | default | meaning |\n|---|---|---|\n")
	for _, v := range values {
		fmt.Fprintf(out, "| `%s` | %s | %s |\n", v.path, shown(v.def), linked(cell(v.description+allowed(v.schema))))
	}
}

// shown returns a default in Markdown.
func shown(def any) string {
	if def == nil {
		return "`null`"
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(def); err != nil { // fails only for keys that are not strings
		return "?"
	}
	return "`" + cell(strings.TrimSpace(text.String())) + "`"
}

// allowed returns a sentence with the values of an enumeration.
func allowed(schema map[string]any) string {
	values, isEnum := schema["enum"].([]any)
	if !isEnum {
		return ""
	}
	var names []string
	for _, v := range values {
		if v != nil && v != "" {
			names = append(names, fmt.Sprintf("`%v`", v))
		}
	}
	return " Allowed: " + strings.Join(names, ", ") + "."
}

var ofDocs = regexp.MustCompile(`docs/([a-z-]+\.md)`)

// linked turns names of pages into links, relative to docs.
func linked(text string) string { return ofDocs.ReplaceAllString(text, "[$1]($1)") }

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// wrap breaks a paragraph into lines.
func wrap(text string, width int) string {
	var out strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		if column > 0 && column+1+len(word) > width {
			out.WriteString("\n")
			column = 0
		}
		if column > 0 {
			out.WriteString(" ")
			column++
		}
		out.WriteString(word)
		column += len(word)
	}
	return out.String()
}
