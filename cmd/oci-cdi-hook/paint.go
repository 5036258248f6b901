package main

import (
	"io"
	"os"
)

// painter colours words where people look: on a terminal, and not against their wish
// (NO_COLOR).
type painter struct{ out io.Writer }

func (p painter) good(word string) string { return p.paint("32", word) }
func (p painter) warn(word string) string { return p.paint("33", word) }
func (p painter) bad(word string) string  { return p.paint("31", word) }

func (p painter) paint(colour, word string) string {
	if !isTerminal(p.out) || os.Getenv("NO_COLOR") != "" {
		return word
	}
	return "\x1b[" + colour + "m" + word + "\x1b[0m"
}

// isTerminal takes every character device for one: nobody sees colour in /dev/null.
func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
