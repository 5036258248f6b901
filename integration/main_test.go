package integration

import (
	"os"
	"testing"

	"oci-cdi-hook/integration/bed"
)

func TestMain(m *testing.M) { os.Exit(bed.Main(m.Run)) }
