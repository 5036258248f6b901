// Package doctor looks whether a host can run this hook: what engines there are and where
// they look for hooks, whether the hook's entries are there and would match, and whether
// engines and hook agree on the spec directories. A [Finding] says what is so, and what to
// do about it where something is wrong.
//
// It reads files and runs programs with --version, and changes nothing. It does not know
// what an engine was started with: flags such as --hooks-dir are beyond it, and so are
// containers. What it says of a configuration file is what the file says now, which an
// engine that runs may not have read yet.
package doctor
