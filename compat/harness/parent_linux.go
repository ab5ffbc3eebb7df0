package harness

import "syscall"

// dieWithParent has the kernel kill a started program when the test binary dies, so that an aborted run leaves nothing.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
