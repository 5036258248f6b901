package policy

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/parser"
)

// CheckDevice tells what is wrong with a device pattern of a rule: a qualified name whose
// name part alone may be a glob as of [path.Match].
func CheckDevice(pattern string) error {
	const form = `not of the form "vendor/class=name" or "vendor/class=glob"`
	kind, name, _ := strings.Cut(pattern, "=")
	vendor, class := parser.ParseQualifier(kind)
	if vendor == "" || name == "" {
		return errors.New(form)
	}
	if strings.ContainsAny(kind, `*?[\`) {
		return fmt.Errorf("%s: a glob is possible after the = only", form)
	}
	if err := errors.Join(parser.ValidateVendorName(vendor), parser.ValidateClassName(class)); err != nil {
		return fmt.Errorf("%s: %w", form, err)
	}
	if i := strings.IndexFunc(name, isNoDeviceGlob); i >= 0 {
		return fmt.Errorf("%q cannot be in a device's name", name[i:][:1])
	}
	return checkGlob(name)
}

// isNoDeviceGlob tells whether a character is in no device name and means nothing in a
// glob: most likely a mistake, as with several names in one string.
func isNoDeviceGlob(r rune) bool {
	return !parser.IsAlphaNumeric(r) && !strings.ContainsRune(`_-.:*?[]^\`, r)
}

// CheckNamespace tells what is wrong with a namespace pattern of a rule: the name of a
// namespace, or a glob as of [path.Match].
func CheckNamespace(pattern string) error {
	if pattern == "" {
		return errors.New("empty")
	}
	if i := strings.IndexFunc(pattern, isNoNamespaceGlob); i >= 0 {
		return fmt.Errorf("%q cannot be in a namespace's name", pattern[i:][:1])
	}
	return checkGlob(pattern)
}

func isNoNamespaceGlob(r rune) bool {
	return !isNamespaceRune(r) && !strings.ContainsRune(`*?[]^\`, r)
}

// isNamespaceRune is about RFC 1123 labels, as Kubernetes has them.
func isNamespaceRune(r rune) bool {
	return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-'
}

// CheckOrigin tells what is wrong with an origin of a rule.
func CheckOrigin(o string) error {
	if Origin(o) != FromPod && Origin(o) != FromContainer {
		return fmt.Errorf("neither %q nor %q", FromPod, FromContainer)
	}
	return nil
}

func checkGlob(glob string) error {
	if _, err := path.Match(glob, ""); err != nil {
		return fmt.Errorf("broken glob: %w", err)
	}
	return nil
}

// matchesDevice compares a parsed name: the kind as it is, the name part with the glob.
func matchesDevice(pattern, name string, ifBroken bool) bool {
	kind, glob, ok := strings.Cut(pattern, "=")
	if !ok {
		return ifBroken
	}
	wantKind, wantName, _ := strings.Cut(name, "=")
	return kind == wantKind && matches(glob, wantName, ifBroken)
}

func matches(glob, name string, ifBroken bool) bool {
	ok, err := path.Match(glob, name)
	if err != nil {
		return ifBroken
	}
	return ok
}
