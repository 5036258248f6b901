// Command man makes man pages of the project's documents: man DOCS OUT reads docs/commands.md
// and docs/configuration.md in DOCS and writes oci-cdi-hook.8 and oci-cdi-hook-config.toml.5
// to OUT. It is a program of its own, so that the hook need not carry what it needs.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
)

// page is a document as a man page: NAME, SYNOPSIS and SEE ALSO are what man pages have
// and documents do not.
type page struct {
	doc, name, section, short, synopsis, seeAlso string
}

var pages = []page{{
	doc: "commands.md", name: "oci-cdi-hook", section: "8",
	short:    "OCI hook that gives containers their CDI devices",
	synopsis: "**oci-cdi-hook** *VERB* [*ARGUMENT*...] [*FLAG*...]",
	seeAlso:  "**oci-cdi-hook-config.toml**(5), **oci-hooks**(5), **containers.conf**(5), **podman-run**(1), **crio**(8)",
}, {
	doc: "configuration.md", name: "oci-cdi-hook-config.toml", section: "5",
	short:    "configuration of oci-cdi-hook",
	synopsis: "**/etc/oci-cdi-hook/config.toml**, **/etc/oci-cdi-hook/conf.d/\\*.toml**",
	seeAlso:  "**oci-cdi-hook**(8)",
}}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "man: usage: man DOCS OUT")
		os.Exit(2)
	}
	for _, p := range pages {
		if err := p.write(os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "man:", err)
			os.Exit(1)
		}
	}
}

func (p page) write(docs, out string) error {
	doc, err := os.ReadFile(filepath.Join(docs, p.doc))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, p.name+"."+p.section), md2man.Render(p.markdown(string(doc))), 0o644)
}

var (
	title   = regexp.MustCompile(`\A# .*\n`)
	comment = regexp.MustCompile(`(?s)<!--.*?-->\n?`)
	heading = regexp.MustCompile(`(?m)^## .*$`)
	// A link into the project leads nowhere from a man page.
	link  = regexp.MustCompile(`\[([^\]]+)\]\((?:[^):]+)\)`)
	flag  = regexp.MustCompile("(?m)^\\* (`--[^`]+`): (.*)$")
	table = regexp.MustCompile(`(?m)(^\|.*\n)+`)
)

func (p page) markdown(doc string) []byte {
	doc = title.ReplaceAllString(doc, "")
	doc = comment.ReplaceAllString(doc, "")
	doc = link.ReplaceAllString(doc, "$1")
	doc = heading.ReplaceAllStringFunc(doc, strings.ToUpper)
	doc = flag.ReplaceAllString(doc, "$1\n: $2\n")
	doc = table.ReplaceAllStringFunc(doc, definitions)
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %q %q \"\" \"oci-cdi-hook\"\n", strings.ToUpper(p.name), p.section)
	fmt.Fprintf(&b, "## NAME\n%s \\- %s\n\n## SYNOPSIS\n%s\n\n## DESCRIPTION\n%s\n## SEE ALSO\n%s\n", p.name, p.short, p.synopsis, doc, p.seeAlso)
	return b.Bytes()
}

// definitions makes a list of a table, which would be wider than a terminal: the first
// column is what the last one explains, and those between stand beside it.
func definitions(table string) string {
	var b strings.Builder
	rows := strings.Split(strings.TrimSpace(table), "\n")
	for _, row := range rows[min(2, len(rows)):] { // the header and its line
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		last := len(cells) - 1
		b.WriteString(cells[0])
		if last > 1 {
			b.WriteString(" (" + strings.Join(cells[1:last], ", ") + ")")
		}
		b.WriteString("\n: " + cells[last] + "\n\n")
	}
	return b.String()
}
