module oci-cdi-hook/integration/peers/hooks

go 1.26

require (
	github.com/containers/common v0.64.0
	github.com/opencontainers/runtime-spec v1.2.1
)

require (
	github.com/containers/storage v1.59.0 // indirect
	github.com/fsnotify/fsnotify v1.9.0 // indirect
	github.com/sirupsen/logrus v1.9.3 // indirect
	golang.org/x/sys v0.34.0 // indirect
)
