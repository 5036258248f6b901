package settings

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// place is where in a document something is.
type place struct {
	table string // empty: at the top
	index int    // among the tables of the name
	key   string
	whole bool // the table itself, not a key
}

func (p place) String() string {
	name := p.key
	if !isBare(name) {
		name = strconv.Quote(name)
	}
	switch {
	case p.table == "":
		return name
	case p.table == mountsTable:
		return mountsTable + "." + name
	case p.whole:
		return fmt.Sprintf("[[%s]] %d", p.table, p.index+1)
	}
	return fmt.Sprintf("[[%s]] %d: %s", p.table, p.index+1, name)
}

func isBare(name string) bool {
	const bare = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	return name != "" && strings.Trim(name, bare) == ""
}

// isIn tells whether a document has the place.
func (p place) isIn(document map[string]any) bool {
	table := document
	if p.table != "" {
		value, ok := document[p.table]
		if !ok {
			return false
		}
		if items, many := tables(value); many {
			if p.index >= len(items) {
				return false
			}
			table = items[p.index]
		} else if table, ok = value.(map[string]any); !ok {
			return false
		}
	}
	_, ok := table[p.key]
	return ok || p.whole
}

// maxParses bounds the search for lines of one file.
const maxParses = 1000

// lineOf finds the line where a place begins, from 1; 0 where it takes too long. The
// library tells of places only what it finds wrong itself. So the beginnings of the
// document are parsed: the place begins in the line with which it comes to be there.
func lineOf(input string, p place, parses *int) int {
	word := p.key
	if p.whole {
		word = p.table
	}
	// Only where the word is written with escapes do lines without it count.
	if line := firstLine(input, word, p, parses); line > 0 {
		return line
	}
	return firstLine(input, "", p, parses)
}

func firstLine(input, word string, p place, parses *int) int {
	ends := lineEnds(input)
	start := 0
	for n, end := range ends {
		line := input[start:end]
		start = end
		if !strings.Contains(line, word) {
			continue
		}
		// A value may go on for lines, and what is cut in it does not parse.
		for _, end := range ends[n:] {
			if *parses++; *parses > maxParses {
				return 0
			}
			var document map[string]any
			if err := toml.Unmarshal([]byte(input[:end]), &document); err != nil {
				continue
			}
			if p.isIn(document) {
				return n + 1
			}
			break
		}
	}
	return 0
}

func lineEnds(input string) []int {
	var ends []int
	end := 0
	for line := range strings.Lines(input) {
		end += len(line)
		ends = append(ends, end)
	}
	return ends
}

// maxMistakes bounds what an error tells of one file.
const maxMistakes = 10

func (d *decoder) err() error {
	parses := 0
	d.wrong = d.wrong[:min(len(d.wrong), maxMistakes)]
	for i := range d.wrong {
		d.wrong[i].line = lineOf(d.input, d.wrong[i].at, &parses)
	}
	slices.SortStableFunc(d.wrong, func(a, b mistake) int { return cmp.Compare(a.line, b.line) })
	var errs []error
	for _, m := range d.wrong {
		errs = append(errs, atLine(d.file, m.line, fmt.Errorf("%v: %w", m.at, m.err)))
	}
	return errors.Join(errs...)
}

func syntaxError(file string, err error) error {
	var syntax *toml.DecodeError
	if !errors.As(err, &syntax) {
		return atLine(file, 0, err)
	}
	line, _ := syntax.Position()
	text := strings.TrimPrefix(syntax.Error(), "toml: ")
	if key := syntax.Key(); len(key) > 0 {
		text = strconv.Quote(strings.Join(key, ".")) + ": " + text
	}
	return atLine(file, line, errors.New(text))
}

func atLine(file string, line int, err error) error {
	if line == 0 {
		return fmt.Errorf("%s: %w", file, err)
	}
	return fmt.Errorf("%s:%d: %w", file, line, err)
}
