// Package specfile answers what people ask of a CDI spec file before a container needs
// it: whether the library takes it, what in it is most likely a mistake ([Check]),
// whether this host has what it names ([Drift]), and what it looks like in today's form
// ([Convert]).
//
// The verdict is the library's own. What is added are remarks: they never make a file
// valid or invalid, but for hooks that no runtime would run.
//
// It changes nothing, resolves no names, and knows nothing of containers. Drift is what
// the calling user can see of the host: what cannot be looked at is said to be unknown,
// not missing.
package specfile
