package oci

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oci-cdi-hook/hook/internal/standin"
)

func TestMain(m *testing.M) {
	standin.Main()
	os.Exit(m.Run())
}

func writeFile(t testing.TB, content string, parts ...string) string {
	t.Helper()
	name := filepath.Join(parts...)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// wantError checks that an error is one line with the wanted text; "" wants none.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Error(err)
	case want == "":
	case err == nil:
		t.Errorf("no error, want %q", want)
	case !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n"):
		t.Errorf("error %q, want one line with %q", err, want)
	}
}
