package device

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
)

// isSpelled are ways to write the kind v.example/dev that the library reads.
var isSpelled = []string{
	"kind: v.example/dev",
	"kind: 'v.example/dev'",
	"kind: \"v.example/dev\"",
	"{\"kind\":\"v.example/dev\"}",
	"kind: \"v.example\\x2fdev\"",
	"kind: \"v.example\\/dev\"",
	"kind: \"v.exam\\\n  ple/dev\"",
	"kind: \"\\\n  v.example/dev\"",
	"\"k\\x69nd\": v.example/dev",
	"kind: !!binary di5leGFtcGxlL2Rldg==",
	"kind: !!binary |\n  di5leG\n  FtcGxlL2Rldg==",
	"%TAG !b! tag:yaml.org,2002:\n--- \nkind: !b!binary di5leGFtcGxlL2Rldg==",
	"kind: !<tag:yaml.org,2002:binary> di5leGFtcGxlL2Rldg==",
	"kind: !<tag:yaml.org,2002:bin%61ry> di5leGFtcGxlL2Rldg==",
	"kind: >-\n  v.example/dev",
	"kind: |-\n  v.example/dev",
	"kind: &k v.example/dev",
	"containerEdits: {env: [&k v.example/dev]}\nkind: *k",
	"<<: {kind: v.example/dev}",
	"? kind\n: v.example/dev",
	"kind: # comment\n  v.example/dev",
	"kind:\n  v.example/dev # comment",
	"\ufeffkind: v.example/dev",
	"kind: \ufeffv.example/dev",
	"kind: v.exam\ufeffple/dev",
	"kind: v.example/\n  dev",
	"kind: \"v.example/\n  dev\"",
	"kind: 'v.example/\n\n\n  dev'",
	"kind: >-\n  v.example/\n  dev",
	"kind: v.example/\u0085  dev",
	"kind: v.example/\u2028  dev",
	"kind: 'v.example/\u2029  dev'",
	"kind: v.example/\r  dev",
	"kind: v.example/\tdev",
	"kind: !!str v.example/dev",
	"kind: !!float 1.5",
	"kind: 2001-12-14t21:59:43.10-05:00",
	utf16("kind: v.example/dev", true),
	utf16("kind: v.example/dev", false),
}

func utf16(text string, little bool) string {
	var b strings.Builder
	b.WriteString(map[bool]string{true: "\xff\xfe", false: "\xfe\xff"}[little])
	for _, c := range []byte(text) {
		b.Write(map[bool][]byte{true: {c, 0}, false: {0, c}}[little])
	}
	return b.String()
}

// checkPrefilter checks that what the library reads from the bytes is not
// skipped. It returns the kind read.
func checkPrefilter(t *testing.T, data []byte) string {
	t.Helper()
	kind := kindByLibrary(data)
	if kind == "" {
		return ""
	}
	if !mayName(data, kind) || !mayNameAny(data, []string{"other.example/x", kind}) {
		t.Errorf("kind %s would be skipped: %q", kind, data)
	}
	return kind
}

// kindByLibrary returns the kind that the library reads, if it is a valid one.
func kindByLibrary(data []byte) string {
	raw, err := cdi.ParseSpec(data)
	if err != nil || raw == nil {
		return ""
	}
	vendor, class := parser.ParseQualifier(raw.Kind)
	if parser.ValidateVendorName(vendor) != nil || parser.ValidateClassName(class) != nil {
		return ""
	}
	return raw.Kind
}

func TestPrefilterSkipsNoSpelling(t *testing.T) {
	read := 0
	for _, data := range isSpelled {
		if kind := checkPrefilter(t, []byte(data)); kind == "v.example/dev" {
			read++
		}
	}
	// Some are there to show that the library does not read them so.
	if read < 22 {
		t.Errorf("the library reads the kind in %d spellings only", read)
	}
}

func TestPrefilterSkips(t *testing.T) {
	fixtures, err := filepath.Glob("testdata/fixtures/*")
	if err != nil || len(fixtures) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, path := range fixtures {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if mayName(data, "v.example/dev") {
			t.Errorf("%s would be parsed for a kind that it does not have", path)
		}
	}
}

// FuzzPrefilter looks for bytes that the library reads as a kind which the
// bytes do not show. The value is also tried as the kind's own text, in the
// styles that YAML has.
func FuzzPrefilter(f *testing.F) {
	for _, data := range isSpelled {
		f.Add([]byte(data))
		_, value, ok := strings.Cut(data, "kind:")
		if ok {
			f.Add([]byte(strings.TrimSpace(value)))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		value := string(data)
		checkPrefilter(t, data)
		for _, document := range []string{
			"kind: " + value + "\n",
			"{kind: " + value + "}",
			"kind: \"" + value + "\"\n",
			"kind: '" + value + "'\n",
			"kind: >-\n  " + value + "\n",
			"kind: |-\n  " + value + "\n",
			"kind: v.example/" + value + "dev\n",
			"kind: \"v.example/" + value + "dev\"\n",
			"kind: 'v.example/" + value + "dev'\n",
			"kind: >-\n  v.example/" + value + "dev\n",
			utf16("kind: "+value, true),
		} {
			checkPrefilter(t, []byte(document))
		}
	})
}
