package hook

import "os"

type cgroupStep struct{}

func (c *cgroupStep) close()             {}
func (c *cgroupStep) forHooks() *os.File { return nil }
func (c *cgroupStep) joinV1() error      { return nil }
func (w *work) checkCgroups() error      { return nil }
func (w *work) applyCgroups() (func() error, error) {
	return func() error { return nil }, nil
}
