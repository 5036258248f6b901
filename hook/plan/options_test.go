package plan

import (
	"strings"
	"testing"
)

func TestKnownOption(t *testing.T) {
	for word := range strings.FieldsSeq(`bind rbind defaults idmap ridmap tmpcopyup
		ro rw nosuid suid nodev dev noexec exec nosymfollow symfollow
		noatime atime nodiratime diratime relatime norelatime strictatime nostrictatime
		sync async dirsync mand nomand lazytime nolazytime iversion noiversion silent loud
		rro rrw rnosuid rsuid rnodev rdev rnoexec rexec rnodiratime rdiratime rrelatime rnorelatime
		rnoatime ratime rstrictatime rnostrictatime rnosymfollow rsymfollow
		private rprivate slave rslave shared rshared unbindable runbindable`) {
		if !KnownOption(word) {
			t.Errorf("%s is not known", word)
		}
	}
	for _, word := range []string{"unknownopt", "", "r", "rsync", "rrro", "RO", "size=1k", "rdefaults", "o", "w", "elatime"} {
		if KnownOption(word) {
			t.Errorf("%q is known", word)
		}
	}
}
