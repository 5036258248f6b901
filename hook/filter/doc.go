// Package filter is the stage precreate: an OCI config comes in, and comes out
// with everything of CDI in it, so that the runtime that reads it knows of all.
//
// The edits are the CDI library's own Apply, on the parts of the config that it
// looks at. What it has changed is then put into the bytes that came in: a
// number, a field, an order or a spelling that this program knows nothing of
// is passed on as it was, and a config that asks for nothing is passed on byte
// for byte.
//
// A request is an annotation, or an entry of linux.devices whose path is a
// qualified name: what an engine makes of --device vendor.com/device=myDevice
// when it knows nothing of CDI. Such an entry is replaced by what it asks for.
//
// The result is that of the library's InjectDevices, but for this:
//
//   - A rule for permissions "none" is left out: it allows nothing, and runc
//     refuses a config that has it.
//   - What is there already is not added again: a hook of equal stage, path,
//     args and env, a rule that no later one denies, and the mounts where all
//     of them are there and nothing lies on top. So the stage may run twice.
//   - In a user namespace a node whose host path is not its path in the
//     container becomes a bind mount: there runtimes cannot make nodes, and
//     bind the host's node of the container's path instead.
//   - A path is one device: other entries of linux.devices for it go.
//
// What this package does not do: it changes nothing on the system, decides
// nothing about who may have a device, and does not check the config beyond
// what it reads of it. It is no validator: the runtime is. With a config that
// names a key twice it refuses to guess.
package filter
