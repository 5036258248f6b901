// Package device turns what a container asks for into what the Container
// Device Interface would give it: annotations into qualified names
// ([Requested]), names into container edits ([Registry.Resolve]), and edits
// into the items that the CDI library would write into an OCI config
// ([Resolution.Native]). [Registry.List] says what there is to ask for.
//
// Parsing, validation, defaults and merging are the CDI library's own. What
// is added around it is isolation (one bad spec file never hides another,
// also where the library panics or would block), speed (a spec file that
// cannot name a requested kind is not parsed) and errors that say why a name
// did not resolve.
//
// What this package does not do: it changes nothing on the system, knows
// nothing of mounts, namespaces or cgroups, decides nothing about who may
// have a device, and keeps no state between calls. It does not watch the
// spec directories: each call sees them as they are, and a file that is
// rewritten in place during a call may be seen half-written, as with any
// reader; writers rename into place. Spec files are read as the calling user.
package device
