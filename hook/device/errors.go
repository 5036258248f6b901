package device

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of an error's text. Everything in it may come from an annotation or
// a spec file, and the line ends in a runtime's own error and in the journal.
const (
	maxShown  = 120  // bytes of one name, key or path
	maxReason = 300  // bytes of one reason
	maxItems  = 32   // names or files listed; the rest is counted
	maxLine   = 8192 // bytes of the whole line
)

// ExitRequest is the exit code of a refused request, see [RequestError].
const ExitRequest = 3

// RequestError says that a request cannot be met as it was made: the names
// are malformed, or they do not resolve. Nothing of the request is used.
type RequestError struct {
	// Items holds every bad item, in request order.
	Items []RequestItem
	// Dirs are the spec directories searched, empty for malformed names.
	Dirs []SearchedDir
	// Files are the spec files that could be of a requested kind but were
	// not usable.
	Files []FileError
}

// RequestItem is one name that cannot be had.
type RequestItem struct {
	Name   string // as requested, unsafe to print as it is
	Key    string // the annotation key it came from, empty for unresolved names
	Reason string // one printable line
	Near   []string
}

// SearchedDir is a spec directory and why it could not be searched, if so.
type SearchedDir struct {
	Path    string
	Missing bool
	Err     error
}

// FileError is a spec file or directory that could not be used, and why.
type FileError struct {
	Path string
	Err  error
}

// ExitCode returns [ExitRequest].
func (e *RequestError) ExitCode() int { return ExitRequest }

// Error returns one bounded, printable line that names every bad item.
func (e *RequestError) Error() string {
	var items []string
	for _, item := range e.Items {
		items = append(items, item.String())
	}
	text := joinBounded(items)
	if len(e.Dirs) > 0 {
		text += "; searched " + e.searched()
	}
	var files []string
	for _, f := range e.Files {
		files = append(files, f.Error())
	}
	if len(files) > 0 {
		text += "; not usable: " + joinBounded(files)
	}
	return oneLine(text, maxLine)
}

// Unwrap returns the reasons of the unusable files, so that a caller can ask
// for [io/fs.ErrPermission].
func (e *RequestError) Unwrap() []error {
	var errs []error
	for _, f := range e.Files {
		errs = append(errs, f.Err)
	}
	return errs
}

func (e *RequestError) searched() string {
	var dirs []string
	for _, d := range e.Dirs {
		text := shown(d.Path)
		switch {
		case d.Missing:
			text += " (missing)"
		case d.Err != nil:
			text += " (" + oneLine(d.Err.Error(), maxReason) + ")"
		}
		dirs = append(dirs, text)
	}
	return strings.Join(dirs, ", ")
}

// String returns the item, its reason and what may have been meant.
func (i RequestItem) String() string {
	var b strings.Builder
	if i.Key != "" {
		fmt.Fprintf(&b, "annotation %s: %s: %s", shown(i.Key), quoted(i.Name), i.Reason)
		return b.String()
	}
	fmt.Fprintf(&b, "device %s: %s", shown(i.Name), i.Reason)
	if len(i.Near) > 0 {
		fmt.Fprintf(&b, ", did you mean %s?", joinWord(i.Near, " or "))
	}
	return b.String()
}

// Error returns the path and the reason on one line.
func (e FileError) Error() string {
	return shown(e.Path) + ": " + oneLine(e.Err.Error(), maxReason)
}

// Unwrap returns the reason.
func (e FileError) Unwrap() error { return e.Err }

func joinBounded(items []string) string {
	if len(items) <= maxItems {
		return strings.Join(items, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(items[:maxItems], "; "), len(items)-maxItems)
}

// shown returns unsafe text as it is where that is harmless, else quoted.
func shown(unsafe string) string {
	if unsafe == "" || len(unsafe) > maxShown || !isPlain(unsafe) {
		return quoted(unsafe)
	}
	return unsafe
}

func isPlain(s string) bool {
	for _, r := range s {
		if r == utf8.RuneError || r == '"' || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// quoted returns unsafe text quoted and cut.
func quoted(unsafe string) string {
	if len(unsafe) <= maxShown {
		return strconv.Quote(unsafe)
	}
	return strconv.Quote(cut(unsafe, maxShown)) + "..."
}

// oneLine makes text printable on one line of at most limit bytes.
func oneLine(unsafe string, limit int) string {
	// Cutting first keeps the work bounded; the rewriting below may only
	// shorten or, for invalid bytes, grow the text.
	text := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, cut(unsafe, 4*limit))
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= limit {
		return text
	}
	return cut(text, limit-len("...")) + "..."
}

// cut returns at most limit bytes of s, not splitting a rune.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// OneLine makes text of a file or a user printable, on one line of bounded length.
func OneLine(unsafe string) string { return oneLine(unsafe, maxReason) }
