// Command floor reads stdin to its end and does nothing else: what starting a static Go program as a hook costs.
package main

import (
	"io"
	"os"
)

func main() {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		os.Exit(1)
	}
}
